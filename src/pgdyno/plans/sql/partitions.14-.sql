-- Tables that are partitions, with the partitioned table at the root, its key, and how many
-- partitions with rows it has in all.
select n.nspname || '.' || c.relname as relation, rn.nspname || '.' || r.relname as root,
       pg_catalog.pg_get_partkeydef(r.oid),
       (select count(*) from pg_catalog.pg_partition_tree(r.oid) t where t.isleaf)::int
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_class r on r.oid = pg_catalog.pg_partition_root(c.oid)
  join pg_catalog.pg_namespace rn on rn.oid = r.relnamespace
 where c.relispartition and n.nspname || '.' || c.relname = any (%s)
 order by root, relation
