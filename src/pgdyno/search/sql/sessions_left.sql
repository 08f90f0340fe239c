-- Sessions of a load that has ended, which the server has still to end.
select count(*) from pg_stat_activity
where (application_name = 'pgdyno' or application_name like 'pgdyno/%') and backend_type = 'client backend'
