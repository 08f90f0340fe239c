-- Scans of some tables and of their indexes since the statistics began, those of partitions with the
-- table that they belong to. An index is known by its columns, as a clone's has another name.
with recursive tree (root, oid) as (
    select oid, oid from pg_class where oid = any (%(tables)s::oid[])
    union all
    select tree.root, inhrelid from tree join pg_inherits on inhparent = tree.oid
)
select root::bigint as table_id, '' as columns, sum(pg_stat_get_numscans(oid))::float8 as scans
  from tree
 group by root
union all
select tree.root::bigint, named.columns, sum(pg_stat_get_numscans(i.indexrelid))::float8
  from tree
  join pg_index i on i.indrelid = tree.oid,
       lateral (select string_agg(coalesce(a.attname, '(expression)'), ', ' order by key.place)
                       || case when i.indpred is null then '' else ' (partial)' end as columns
                  from unnest(i.indkey[0 : i.indnkeyatts - 1]) with ordinality as key (number, place)
                  left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = key.number
                       and key.number > 0) as named
 group by tree.root, named.columns
