-- The session that holds the advisory lock %(key)s in this database. pg_locks shows a bigint key in
-- two halves.
select l.pid, coalesce(a.application_name, '') as name, coalesce(a.usename, '') as role,
       coalesce(host(a.client_addr), '') as address,
       to_char(a.backend_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"') as since
  from pg_locks l
  left join pg_stat_activity a on a.pid = l.pid
 where l.locktype = 'advisory' and l.granted and l.objsubid = 1
   and l.database = (select oid from pg_database where datname = current_database())
   and (l.classid::bigint << 32 | l.objid::bigint) = %(key)s
