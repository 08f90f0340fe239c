-- Rights of this session and measurements enabled in the server; read once per connection.
select pg_backend_pid() as backend_pid,
       (select extract(epoch from backend_start)::float8
          from pg_stat_activity where pid = pg_backend_pid()) as started_unix_s,
       pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all,
       current_user as role,
       current_setting('track_io_timing')::boolean as track_io_timing,
       current_setting('track_wal_io_timing')::boolean as track_wal_io_timing,
       current_setting('track_activities')::boolean as track_activities,
       current_setting('track_counts')::boolean as track_counts
