-- Which server answers, through which of its processes, and where it listens. What needs rights
-- comes from pg_settings, which leaves the row out where a function would raise.
select pg_backend_pid() as backend_pid,
       current_database() as database,
       extract(epoch from pg_postmaster_start_time())::text || ' '
           || (select system_identifier from pg_control_system()) as identity,
       host(inet_server_addr()) as address,
       current_setting('port')::int as port,
       (select setting from pg_settings where name = 'unix_socket_directories') as socket_directories
