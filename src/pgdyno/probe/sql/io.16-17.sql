-- Versions 16 and 17 count operations of a fixed size, op_bytes.
select backend_type, object, context, reads, (reads * op_bytes)::bigint as read_bytes,
       read_time as read_time_ms, writes, (writes * op_bytes)::bigint as write_bytes,
       write_time as write_time_ms, writebacks, writeback_time as writeback_time_ms, extends,
       (extends * op_bytes)::bigint as extend_bytes, extend_time as extend_time_ms,
       hits, evictions, reuses, fsyncs, fsync_time as fsync_time_ms
  from pg_stat_io
