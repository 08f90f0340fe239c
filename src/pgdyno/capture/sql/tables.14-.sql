-- Tables and materialized views of this database; a partition is counted with the table that it
-- belongs to. Rows are those of the last analysis, or those that the statistics count if they are
-- more by now. Of a table that was empty then the pages are those of its file, without the part
-- that old versions of its rows take. An update within a page that is not HOT has taken the room
-- of another old version, which is counted until the next vacuum. The rows of partitions are in the
-- order of their ranges: bounds of one type are longer if they are higher, or as long. Of too many
-- tables those are taken of which most rows were read and written.
with recursive tree (root, oid) as (
    select c.oid, c.oid
      from pg_class c
      join pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'p', 'm') and not c.relispartition and c.relpersistence <> 't'
       and n.nspname not in ('pg_catalog', 'information_schema')
       and n.nspname !~ '^pg_(toast|temp)'
       and not exists (select from pg_depend d
                        where d.classid = 'pg_class'::regclass and d.objid = c.oid
                          and d.deptype = 'e')
    union all
    select tree.root, inhrelid from tree join pg_inherits on inhparent = tree.oid
      join pg_class part on part.oid = inhrelid and part.relispartition
), used (root) as (
    select tree.root
      from tree
      join pg_class part on part.oid = tree.oid
     group by tree.root
     order by sum(pg_stat_get_tuples_returned(tree.oid) + pg_stat_get_tuples_fetched(tree.oid)
                  + pg_stat_get_tuples_inserted(tree.oid) + pg_stat_get_tuples_updated(tree.oid)
                  + pg_stat_get_tuples_deleted(tree.oid)) desc,
              sum(greatest(part.reltuples, 0)) desc, tree.root
     limit %(most)s
)
select c.oid::bigint as id, n.nspname as schema, c.relname as name,
       case p.partstrat when 'r' then 'range' when 'l' then 'list'
                        when 'h' then 'hash' end as strategy,
       array(select a.attname::text
               from unnest(p.partattrs::int2[]) with ordinality as key (number, place)
               join pg_attribute a on a.attrelid = c.oid and a.attnum = key.number
              order by key.place) as partitioned_by,
       coalesce(0 = any (p.partattrs::int2[]), false) as is_by_expression,
       count(*) filter (where part.relkind <> 'p')::int as parts,
       array_agg(greatest(part.reltuples, live.tuples, 0)::float8
                 order by bound <> 'MINVALUE', length(bound), bound collate "C")
       filter (where part.relkind <> 'p') as rows_of_parts,
       c.relpersistence = 'u' as is_unlogged,
       coalesce(sum(greatest(part.reltuples, live.tuples, 0)) filter (where part.relkind <> 'p'),
                0)::float8 as rows,
       sum(case when part.reltuples > 0
                then part.relpages * greatest(1, live.tuples / part.reltuples)
                when live.tuples > 0
                then pg_relation_size(part.oid) / current_setting('block_size')::float8
                     * live.tuples / (live.tuples + greatest(0, dead.tuples - reused.tuples))
                else part.relpages end)::bigint as pages,
       coalesce(c.reloptions, '{}') as options,
       has_table_privilege(c.oid, 'select')
       or pg_has_role(current_user, 'pg_read_all_data', 'usage') as is_readable
  from used
  join tree using (root)
  join pg_class c on c.oid = tree.root
  join pg_class part on part.oid = tree.oid
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_partitioned_table p on p.partrelid = c.oid
  left join lateral (select pg_stat_get_live_tuples(part.oid)::float8 as tuples) live on true
  left join lateral (select pg_stat_get_dead_tuples(part.oid)::float8 as tuples) dead on true
  left join lateral (select coalesce(n_tup_upd - n_tup_hot_upd
                                     - (to_jsonb(s) ->> 'n_tup_newpage_upd')::bigint, 0) as tuples
                       from pg_stat_all_tables s
                      where relid = part.oid and part.reltuples <= 0 and live.tuples > 0
                    ) reused on true
  left join lateral (select substring(pg_get_expr(part.relpartbound, part.oid)
                                      from 'FROM \(''?([^'')]*)') as bound) low on true
 group by c.oid, n.nspname, p.partrelid
 order by sum(greatest(part.reltuples, 0)) desc, n.nspname, c.relname
