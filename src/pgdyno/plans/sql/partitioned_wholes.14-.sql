-- Partitions with these names, and the partitioned tables that they belong to; and of indexes with
-- these names, the indexes of partitioned tables.
select n.nspname || '.' || c.relname as part, rn.nspname || '.' || r.relname as whole
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_class r on r.oid = pg_catalog.pg_partition_root(c.oid)
  join pg_catalog.pg_namespace rn on rn.oid = r.relnamespace
 where c.relispartition and c.relname = any (%s)
