-- Archived WAL segments; the name of a segment gives its position in the WAL.
select archived_count, failed_count, last_archived_wal, last_failed_wal,
       (extract(epoch from last_archived_time) * 1000)::bigint as last_archived_unix_ms,
       (extract(epoch from last_failed_time) * 1000)::bigint as last_failed_unix_ms
  from pg_stat_archiver
