-- Rows of some tables that were inserted, deleted, and updated, and those of these whose new version
-- is in the same page (HOT), since the statistics began; of partitions with the table they belong to.
with recursive tree (root, oid) as (
    select oid, oid from pg_class where oid = any (%(tables)s::oid[])
    union all
    select tree.root, inhrelid from tree join pg_inherits on inhparent = tree.oid
)
select root::bigint as id, sum(pg_stat_get_tuples_inserted(oid))::float8 as inserted,
       sum(pg_stat_get_tuples_deleted(oid))::float8 as deleted,
       sum(pg_stat_get_tuples_updated(oid))::float8 as updated,
       sum(pg_stat_get_tuples_hot_updated(oid))::float8 as hot
  from tree
 group by root
