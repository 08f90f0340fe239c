-- What each process that is not a client backend is: its role, for the CPU figures.
select pid, backend_type
  from pg_stat_activity
 where backend_type is not null and backend_type <> 'client backend'
