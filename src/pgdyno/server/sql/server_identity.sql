-- The identity of the server. All copies of a cluster share the system identifier; the postmaster's
-- start time distinguishes running ones; port and data directory distinguish them after a restart.
-- The data directory is null for a role that may not see it.
select system_identifier::text,
       current_setting('port')::int as port,
       (select setting from pg_settings where name = 'data_directory') as data_directory,
       extract(epoch from pg_postmaster_start_time())::text as started
  from pg_control_system()
