-- Version 19 also counts the bytes of page images, compressed where they are. The context 'init',
-- new segments being filled with zeros, is left out, as in pg_stat_wal before version 18.
select w.wal_records, w.wal_fpi, w.wal_bytes::bigint as wal_bytes,
       w.wal_fpi_bytes::bigint as wal_fpi_bytes, w.wal_buffers_full,
       i.wal_write, i.wal_sync, i.wal_write_time_ms, i.wal_sync_time_ms,
       pg_wal_lsn_diff(
           case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                else pg_current_wal_insert_lsn() end, '0/0')::bigint as insert_lsn_bytes,
       pg_wal_lsn_diff(
           case when pg_is_in_recovery() then pg_last_wal_receive_lsn()
                else pg_current_wal_flush_lsn() end, '0/0')::bigint as flush_lsn_bytes,
       pg_wal_lsn_diff(c.redo_lsn, '0/0')::bigint as redo_lsn_bytes,
       (extract(epoch from c.checkpoint_time) * 1000)::bigint as checkpoint_unix_ms
  from pg_stat_wal w, pg_control_checkpoint() c,
       (select sum(writes)::bigint as wal_write, sum(fsyncs)::bigint as wal_sync,
               sum(write_time) as wal_write_time_ms, sum(fsync_time) as wal_sync_time_ms
          from pg_stat_io
         where object = 'wal' and context = 'normal') i
