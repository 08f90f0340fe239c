-- Backend types of processes other than client backends, for their CPU figures.
select pid, backend_type
  from pg_stat_activity
 where backend_type is not null and backend_type <> 'client backend'
