-- Ends the remaining sessions of a dead pgdyno, and counts them.
select count(pg_terminate_backend(pid))
  from pg_stat_activity
 where application_name = %(name)s and pid <> pg_backend_pid()
