-- num_done counts completed checkpoints; num_timed and num_requested include skipped ones.
select num_timed + restartpoints_timed as num_timed,
       num_requested + restartpoints_req as num_requested,
       num_done + restartpoints_done as num_done,
       write_time as write_time_ms, sync_time as sync_time_ms, buffers_written
  from pg_stat_checkpointer
