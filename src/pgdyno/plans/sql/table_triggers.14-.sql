-- Triggers of tables that fire for the load's sessions, without those of constraints.
select n.nspname || '.' || c.relname as relation, t.tgname,
       pn.nspname || '.' || p.proname || '(' || pg_catalog.oidvectortypes(p.proargtypes) || ')'
  from pg_catalog.pg_trigger t
  join pg_catalog.pg_class c on c.oid = t.tgrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_proc p on p.oid = t.tgfoid
  join pg_catalog.pg_namespace pn on pn.oid = p.pronamespace
 where not t.tgisinternal and t.tgenabled in ('O', 'A')
   and n.nspname || '.' || c.relname = any (%s)
 order by relation, t.tgname
