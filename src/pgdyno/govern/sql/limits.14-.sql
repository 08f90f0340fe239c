-- The server and its limits.
select (select system_identifier::text from pg_control_system()) as system_identifier,
       current_setting('autovacuum_freeze_max_age')::bigint as freeze_max_age,
       current_setting('autovacuum_multixact_freeze_max_age')::bigint as multixact_freeze_max_age,
       current_setting('vacuum_failsafe_age')::bigint as failsafe_age,
       current_setting('vacuum_multixact_failsafe_age')::bigint as multixact_failsafe_age,
       current_setting('autovacuum')::bool as autovacuum,
       current_setting('block_size')::int as block_size,
       pg_is_in_recovery() as in_recovery,
       pg_has_role('pg_read_all_stats', 'USAGE') as sees_sessions
