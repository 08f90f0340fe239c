-- Tables of users that have pages; of a partitioned one the whole. NULL as names: all of them.
select n.nspname, c.relname
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p', 'm')
   and not c.relispartition
   and n.nspname !~ '^(pg_|information_schema$)'
   and (%(names)s::text[] is null or c.relname = any(%(names)s::text[]))
   and (pg_relation_size(c.oid) > 0
        or exists (select from pg_partition_tree(c.oid) part where pg_relation_size(part.relid) > 0))
