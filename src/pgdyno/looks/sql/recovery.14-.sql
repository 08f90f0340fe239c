-- A standby's own recovery; no row on a primary.
select pg_get_wal_replay_pause_state() as pause_state,
       extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp())::float8
           as replayed_s,
       pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())::float8
           as waiting_bytes
 where pg_is_in_recovery()
