-- One row about the server. Restricted columns come from pg_settings, which omits the row where a
-- function would raise an error.
select current_setting('server_version') as version,
       current_setting('server_version_num')::int as version_num,
       current_setting('is_superuser') = 'on' as superuser,
       pg_has_role(current_user, 'pg_monitor', 'usage') as monitor,
       pg_is_in_recovery() as in_recovery,
       pg_jit_available() as jit,
       current_database() as database,
       pg_database_size(current_database()) as database_bytes,
       extract(epoch from pg_postmaster_start_time())::float8 as started_epoch_s,
       (select setting from pg_settings where name = 'data_directory') as data_directory,
       (select 'lz4' = any (enumvals) from pg_settings
         where name = 'default_toast_compression') as lz4,
       (select 'zstd' = any (coalesce(enumvals, '{}')) from pg_settings
         where name = 'wal_compression') as zstd,
       coalesce((select 'io_uring' = any (enumvals) from pg_settings
                  where name = 'io_method'), false) as io_uring,
       exists (select from pg_collation where collname = 'und-x-icu') as icu,
       pg_backend_pid() as backend_pid,
       case when pg_has_role('pg_read_all_settings', 'USAGE')
            then array(select name from pg_settings
                        where sourcefile ~ '/postgresql[.]auto[.]conf$' order by name) end as altered
