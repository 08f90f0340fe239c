-- The comment on a relation in which a governor publishes its decision.
select obj_description(c.oid, 'pg_class') as comment
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relname = %s and n.nspname = %s
