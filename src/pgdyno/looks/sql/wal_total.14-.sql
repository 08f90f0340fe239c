-- WAL since its statistics began.
select wal_bytes::float8 as wal_bytes, wal_records, wal_fpi, wal_buffers_full,
       extract(epoch from clock_timestamp() - stats_reset)::float8 as counters_s
  from pg_stat_wal
