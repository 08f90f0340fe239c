-- Counters of the database under load. Backends report to them at most once a second.
select numbackends, xact_commit, xact_rollback, blks_read, blks_hit, tup_returned, tup_fetched,
       tup_inserted, tup_updated, tup_deleted, conflicts, temp_files, temp_bytes, deadlocks,
       blk_read_time as blk_read_time_ms, blk_write_time as blk_write_time_ms,
       session_time as session_time_ms, active_time as active_time_ms,
       idle_in_transaction_time as idle_in_transaction_time_ms, sessions,
       sessions_abandoned, sessions_fatal, sessions_killed
  from pg_stat_database
 where datname = current_database()
