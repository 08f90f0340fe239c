-- Standbys and other receivers of WAL, with what they have not replayed yet.
select coalesce(application_name, '') as name, state, sync_state,
       extract(epoch from replay_lag)::float8 as replay_lag_s,
       pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                            else pg_current_wal_lsn() end,
                       coalesce(replay_lsn, flush_lsn))::float8 as behind_bytes
  from pg_stat_replication
 limit 200
