-- Restartpoints of a standby have separate counters since version 17; they are added, since a
-- server makes either checkpoints or restartpoints.
select num_timed + restartpoints_timed as num_timed,
       num_requested + restartpoints_req as num_requested, null as num_done,
       write_time as write_time_ms, sync_time as sync_time_ms, buffers_written
  from pg_stat_checkpointer
