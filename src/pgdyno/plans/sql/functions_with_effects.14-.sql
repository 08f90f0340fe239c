-- Volatile functions with one of these names, and those that triggers of these tables call at these
-- events (bits of tgtype): whether anybody may write functions in their language, and their text, if
-- they have one.
select p.proname as name, l.lanpltrusted as is_trusted,
       coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), p.prosrc, '') as body
  from pg_catalog.pg_proc p
  join pg_catalog.pg_language l on l.oid = p.prolang
  left join (
       select t.oid, t.tgfoid
         from pg_catalog.pg_trigger t
         join pg_catalog.pg_class c on c.oid = t.tgrelid
         join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where not t.tgisinternal and t.tgenabled <> 'D'
          and n.nspname || '.' || c.relname = any (%s) and t.tgtype & %s <> 0) t on t.tgfoid = p.oid
 where p.provolatile = 'v' and (p.proname = any (%s) or t.oid is not null)
