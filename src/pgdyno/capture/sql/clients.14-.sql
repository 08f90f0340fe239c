-- Client sessions of this database, busy or not, with their role and application. Without pgdyno's
-- probes.
select a.pid, coalesce(a.usename, '') as role, coalesce(a.application_name, '') as application
  from pg_stat_activity a
 where a.datname = current_database() and a.backend_type = 'client backend'
   and a.pid <> pg_backend_pid() and coalesce(a.application_name, '') not like 'pgdyno %'
