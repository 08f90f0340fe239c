-- buffers_backend and buffers_backend_fsync are what backends had to write and sync themselves.
select buffers_clean, maxwritten_clean, buffers_alloc, buffers_backend, buffers_backend_fsync
  from pg_stat_bgwriter
