-- End what a dead pgdyno may still have under way, and count what is left of it.
select count(pg_terminate_backend(pid))
  from pg_stat_activity
 where application_name = %(name)s and pid <> pg_backend_pid()
