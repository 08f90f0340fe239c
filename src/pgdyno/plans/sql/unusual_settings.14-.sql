-- Settings of this session that are not at their built-in value and can matter for speed, also those
-- of the whole server. Left out are those of names, places, formats, access and compatibility, by
-- PostgreSQL's own categories: each is named by a setting of it, since the server translates the
-- categories themselves and versions rename them. So are values that the server computed itself.
--
-- in_statements: it acts on the time of statements themselves, so that a session which executes them
-- and undoes them shows what it costs. The others act at commits, on WAL, on waits or in processes
-- of the server's. relied_on: replication, archiving or the results of statements depend on it.
-- That of JIT has a query of its own, as it is off while this one is executed.
with known as (
    select name, setting, context, category, vartype, unit, source,
           -- Until version 15 the built-in value is 8 MB, but that of initdb is 128 MB.
           case when name = 'shared_buffers' and boot_val = '1024' then '16384'
                else boot_val end as boot_val
      from pg_catalog.pg_settings),
outside as (
    select category from known
     where name in ('data_directory', 'hba_file', 'port', 'tcp_keepalives_idle', 'ssl',
                    'password_encryption', 'log_destination', 'cluster_name', 'DateStyle',
                    'dynamic_library_path', 'array_nulls', 'transform_null_equals',
                    'exit_on_error', 'block_size', 'restore_command', 'recovery_target',
                    'recovery_prefetch', 'hot_standby', 'max_sync_workers_per_subscription',
                    'statement_timeout')),
with_texts as (
    select category from known
     where name in ('local_preload_libraries', 'archive_command', 'synchronous_standby_names',
                    'log_min_messages', 'wal_consistency_checking')),
of_statements as (
    select category from known
     where name in ('enable_seqscan', 'seq_page_cost', 'geqo', 'from_collapse_limit', 'work_mem',
                    'effective_io_concurrency', 'max_parallel_workers', 'log_duration',
                    'log_min_messages', 'track_activities', 'compute_query_id',
                    'debug_discard_caches', 'local_preload_libraries')),
of_others as (
    select category from known
     where name in ('archive_mode', 'max_wal_senders', 'synchronous_standby_names'))
select name, current_setting(name), boot_val, unit, source,
       context = 'postmaster' as needs_restart,
       context in ('user', 'superuser')
           and (category in (select category from of_statements) or name like '%.%'
                or name = 'client_min_messages')
           and name not in ('backend_flush_after', 'log_lock_waits', 'log_recovery_conflict_waits',
                            'track_wal_io_timing', 'wal_consistency_checking')
           and name not like '%preload_libraries' as in_statements,
       category in (select category from of_others)
           or name in ('default_transaction_isolation', 'wal_level') as relied_on
  from known
 where setting is distinct from boot_val
   and context <> 'internal' and source not in ('default', 'override')
   and (category not in (select category from outside)
        or name in ('client_min_messages', 'default_toast_compression',
                    'default_transaction_isolation', 'gin_pending_list_limit',
                    'synchronize_seqscans')
        or name like 'vacuum%')
   and (vartype <> 'string' or category in (select category from with_texts)
        or name = 'log_connections' or name like '%.%')
   and name not in ('max_stack_depth', 'jit')
