-- Tables, views, sequences and routines with a comment; partitions are dropped with their table.
select n.nspname::text as schema, c.relname::text as name, c.relkind::text as kind,
       null as arguments, obj_description(c.oid, 'pg_class') as comment
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p', 'v', 'S') and not c.relispartition
   and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
   and obj_description(c.oid, 'pg_class') is not null
union all
select n.nspname, p.proname, 'routine', pg_get_function_identity_arguments(p.oid),
       obj_description(p.oid, 'pg_proc')
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace
 where n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
   and obj_description(p.oid, 'pg_proc') is not null
 order by 1, 2, 3
