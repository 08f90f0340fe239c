-- Tables, views and sequences with a comment; partitions are dropped with their table.
select n.nspname::text as schema, c.relname::text as name, c.relkind::text as kind,
       obj_description(c.oid, 'pg_class') as comment
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p', 'v', 'S') and not c.relispartition
   and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
   and obj_description(c.oid, 'pg_class') is not null
 order by n.nspname, c.relname
