-- buffers_backend and buffers_backend_fsync count writes and syncs by backends themselves.
select buffers_clean, maxwritten_clean, buffers_alloc, buffers_backend, buffers_backend_fsync
  from pg_stat_bgwriter
