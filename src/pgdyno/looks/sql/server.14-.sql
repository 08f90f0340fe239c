-- The server and the role of this session. Statistics are lost in a crash, after which all of those
-- shared by the databases begin at the same time: counters_s is at most the age of the counters.
select current_setting('server_version_num')::int as version_num,
       pg_is_in_recovery() as in_recovery,
       current_database() as database, current_user as role,
       current_setting('is_superuser') = 'on' as superuser,
       current_setting('block_size')::int as block_bytes,
       extract(epoch from clock_timestamp() - pg_postmaster_start_time())::float8 as uptime_s,
       extract(epoch from clock_timestamp() - greatest(
           (select stats_reset from pg_stat_database where datname = current_database()),
           least((select stats_reset from pg_stat_bgwriter),
                 (select stats_reset from pg_stat_archiver))))::float8 as counters_s
