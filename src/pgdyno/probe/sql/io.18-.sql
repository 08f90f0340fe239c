-- Since version 18 operations differ in size, bytes are counted, and WAL is among the objects.
select backend_type, object, context, reads, read_bytes::bigint as read_bytes,
       read_time as read_time_ms, writes, write_bytes::bigint as write_bytes,
       write_time as write_time_ms, writebacks, writeback_time as writeback_time_ms, extends,
       extend_bytes::bigint as extend_bytes, extend_time as extend_time_ms,
       hits, evictions, reuses, fsyncs, fsync_time as fsync_time_ms
  from pg_stat_io
