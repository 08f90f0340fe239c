-- Ends the sessions of the load, whose clients must connect again; returns their processes.
select array_agg(pid) filter (where pg_terminate_backend(pid))
from pg_stat_activity
where (application_name = 'pgdyno' or application_name like 'pgdyno/%') and backend_type = 'client backend' and pid <> pg_backend_pid()
