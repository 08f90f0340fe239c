-- Writes by backends are in pg_stat_io since version 16, and only there since 17.
select buffers_clean, maxwritten_clean, buffers_alloc,
       null as buffers_backend, null as buffers_backend_fsync
  from pg_stat_bgwriter
