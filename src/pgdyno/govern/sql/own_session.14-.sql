-- This session: its process, and when it began, in microseconds since 1970.
select pid, (extract(epoch from backend_start) * 1000000)::bigint as began_us
  from pg_stat_activity
 where pid = pg_backend_pid()
