-- Sequences that have used more than half of their values, up to their own maximum or that of the
-- columns which they fill: as their own, or by a default. Takes a weak lock on each sequence that
-- is read, for which a server has limited room, so only those of the 1,000 largest or most written
-- tables are read. The value is NULL for a role that may not see it.
with plain as materialized (
    select s.seqrelid, s.seqmax
      from pg_sequence s
     where s.seqincrement > 0 and not s.seqcycle
), filled as materialized (
    select s.seqrelid, s.seqmax, d.refobjid as table_oid, d.refobjsubid as attnum
      from plain s
      left join pg_depend d on d.objid = s.seqrelid and d.classid = 'pg_class'::regclass
            and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i')
            and d.refobjsubid > 0
    union
    select s.seqrelid, s.seqmax, f.adrelid, f.adnum
      from plain s
      join pg_depend d on d.refobjid = s.seqrelid and d.refclassid = 'pg_class'::regclass
            and d.classid = 'pg_attrdef'::regclass
      join pg_attrdef f on f.oid = d.objid
), chosen as materialized (
    select f.*
      from filled f
      left join pg_class t on t.oid = f.table_oid
     order by greatest(t.reltuples, pg_stat_get_tuples_inserted(t.oid)) desc nulls last, f.seqrelid
     limit 1000
), bounded as materialized (
    select f.seqrelid,
           least(min(f.seqmax),
                 min(case a.atttypid when 'int4'::regtype then 2147483647
                                     when 'int2'::regtype then 32767 end)) as highest
      from chosen f
      left join pg_attribute a on a.attrelid = f.table_oid and a.attnum = f.attnum
     group by f.seqrelid
), valued as materialized (
    select b.*, c.relname, c.relnamespace,
           case when c.relpersistence = 'p' and has_sequence_privilege(seqrelid, 'SELECT,USAGE')
                then pg_sequence_last_value(seqrelid) end as last_value
      from bounded b
      join pg_class c on c.oid = b.seqrelid
)
select n.nspname || '.' || v.relname as sequence, v.last_value, v.highest as last_possible
  from valued v
  join pg_namespace n on n.oid = v.relnamespace
 where v.last_value > v.highest / 2
 order by v.last_value::float8 / v.highest desc
 limit 50
