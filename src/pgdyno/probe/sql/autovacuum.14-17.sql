-- Per table, the most written first: what autovacuum compares with its thresholds, and the table's
-- own options.
-- unfrozen, the share of pages that are not frozen, is known since version 18.
with chosen as materialized (
    select oid, pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid)
                + pg_stat_get_tuples_deleted(oid) as written
      from pg_class
     where relkind in ('r', 'm') and relpersistence <> 't' and oid >= 16384
     order by written desc, oid
     limit 50
)
select s.schemaname || '.' || s.relname as relation, c.reltuples, s.n_ins_since_vacuum,
       null::float8 as unfrozen, mxid_age(c.relminmxid) as mxid_age,
       (select mxid_age(t.relminmxid)
          from pg_class t
         where t.oid = c.reltoastrelid) as toast_mxid_age,
       extract(epoch from clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum))::float8
           * 1000 as vacuumed_ms,
       array_to_string(c.reloptions, ' ') as options
  from pg_stat_user_tables s
  join pg_class c on c.oid = s.relid
 where s.relid = any (array(select oid from chosen))
 order by s.n_tup_ins + s.n_tup_upd + s.n_tup_del desc, s.relid
