-- The server's identity, the answering backend, and the server's addresses. Restricted settings come
-- from pg_settings, which omits the row where a function would raise an error.
select pg_backend_pid() as backend_pid,
       current_database() as database,
       extract(epoch from pg_postmaster_start_time())::text || ' '
           || (select system_identifier from pg_control_system()) as identity,
       host(inet_server_addr()) as address,
       current_setting('port')::int as port,
       (select setting from pg_settings where name = 'unix_socket_directories') as socket_directories
