-- Scans of some tables and of their indexes since the statistics began, those of partitions with the
-- table that they belong to. An index is known by its columns, as a clone's has another name. Of the
-- entries that an index has returned, plain scans have fetched the rows themselves; bitmaps leave
-- that to the scan of the table.
with recursive tree (root, oid) as (
    select oid, oid from pg_class where oid = any (%(tables)s::oid[])
    union all
    select tree.root, inhrelid from tree join pg_inherits on inhparent = tree.oid
)
select root::bigint as table_id, '' as columns, sum(pg_stat_get_numscans(oid))::float8 as scans,
       0::float8 as entries, sum(pg_stat_get_tuples_fetched(oid))::float8 as fetched
  from tree
 group by root
union all
select tree.root::bigint, named.columns, sum(pg_stat_get_numscans(i.indexrelid))::float8,
       sum(pg_stat_get_tuples_returned(i.indexrelid))::float8,
       sum(pg_stat_get_tuples_fetched(i.indexrelid))::float8
  from tree
  join pg_index i on i.indrelid = tree.oid,
       lateral (select string_agg(coalesce(a.attname, '(expression)'), ', ' order by key.place)
                       || case when i.indpred is null then '' else ' (partial)' end as columns
                  from unnest(i.indkey[0 : i.indnkeyatts - 1]) with ordinality as key (number, place)
                  left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = key.number
                       and key.number > 0) as named
 group by tree.root, named.columns
