-- Triggers of some tables that fire in sessions of clients; those of partitions with their tables.
select t.tgrelid::bigint as table_id, t.tgname as name, t.tgfoid::bigint as function_id,
       pg_get_triggerdef(t.oid) as sql
  from pg_trigger t
 where t.tgrelid = any (%(tables)s::oid[]) and not t.tgisinternal and t.tgenabled in ('O', 'A')
 order by t.tgrelid, t.tgname
