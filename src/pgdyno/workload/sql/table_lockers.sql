-- Sessions that lock a table against changes, or wait to do so; first those that have the lock, and
-- the oldest transaction among these. Without a process it is a prepared transaction.
select n.nspname || '.' || c.relname as name, l.pid, coalesce(a.application_name, '') as program
  from pg_locks l
  join pg_class c on c.oid = l.relation
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_stat_activity a on a.pid = l.pid
 where l.locktype = 'relation'
   and l.database = (select oid from pg_database where datname = current_database())
   and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
   and l.pid is distinct from pg_backend_pid()
   and c.relkind in ('r', 'p', 'm', 'f', 'v', 'S')
   and n.nspname not in ('pg_catalog', 'information_schema')
 order by not l.granted, a.xact_start nulls first
