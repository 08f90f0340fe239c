-- The lag of the receiver named %(name)s; no row while it is not connected.
select state,
       sync_state,
       greatest(pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn), 0)::bigint,
       greatest(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn), 0)::bigint,
       extract(epoch from flush_lag)::float8 * 1000,
       extract(epoch from replay_lag)::float8 * 1000,
       flush_lsn::text,
       replay_lsn::text
from pg_stat_replication
where application_name = %(name)s
