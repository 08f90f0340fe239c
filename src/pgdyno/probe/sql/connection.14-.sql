-- Connections in use, and the number that roles without reserved connections may use; of others'
-- sessions, those that are idle. reserved_connections exists since version 16.
select count(*) as used,
       count(*) filter (where application_name like 'pgdyno%') as ours,
       count(*) filter (where application_name not like 'pgdyno%' and state like 'idle%')
           as others_idle,
       current_setting('max_connections')::int
           - current_setting('superuser_reserved_connections')::int
           - coalesce(current_setting('reserved_connections', true)::int, 0) as usable
  from pg_stat_activity
 where backend_type = 'client backend'
