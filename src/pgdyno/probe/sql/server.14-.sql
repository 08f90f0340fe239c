-- Identity and start time of the server, and whether it is a standby. The postmaster survives a
-- crash of one of its processes; the checkpointer does not, and is visible with the rights of
-- pg_monitor.
select (select system_identifier::text from pg_control_system()) as system_identifier,
       round(extract(epoch from pg_postmaster_start_time()) * 1000)::int8 as started_unix_ms,
       (select round(extract(epoch from backend_start) * 1000)::int8
          from pg_stat_activity where backend_type = 'checkpointer') as checkpointer_unix_ms,
       pg_is_in_recovery()::int as in_recovery
