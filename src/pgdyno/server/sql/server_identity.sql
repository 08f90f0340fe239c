-- Who this server is. The system identifier is shared by all copies of a cluster; the start of the
-- postmaster tells running ones apart; port and data directory tell them apart after a restart. The
-- data directory is null for a role that may not see it.
select system_identifier::text,
       current_setting('port')::int as port,
       (select setting from pg_settings where name = 'data_directory') as data_directory,
       extract(epoch from pg_postmaster_start_time())::text as started
  from pg_control_system()
