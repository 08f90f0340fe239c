-- Tables by the name of those that a write probe makes, which this role may drop.
select n.nspname::text as schema, c.relname::text as name,
       obj_description(c.oid, 'pg_class') as comment
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and c.relname ~ '^pgdyno_write_probe_'
   and pg_has_role(c.relowner, 'usage')
 limit 100
