-- One row per standby or other receiver of WAL; lag_bytes is WAL not yet replayed or, if the
-- receiver does not replay, not yet flushed.
select coalesce(application_name, '') as application_name, state, sync_state,
       extract(epoch from write_lag)::float8 * 1000 as write_lag_ms,
       extract(epoch from flush_lag)::float8 * 1000 as flush_lag_ms,
       extract(epoch from replay_lag)::float8 * 1000 as replay_lag_ms,
       pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                            else pg_current_wal_flush_lsn() end,
                       coalesce(replay_lsn, flush_lsn, write_lsn, sent_lsn))::bigint as lag_bytes
  from pg_stat_replication
