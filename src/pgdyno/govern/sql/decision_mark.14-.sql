-- The comment on a relation in which a governor publishes its decision, and whether it is a table
-- that this role owns.
select obj_description(c.oid, 'pg_class') as comment,
       c.relkind = 'r' and c.relowner = (
           select oid from pg_roles where rolname = current_user) as own_table
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relname = %s and n.nspname = %s
