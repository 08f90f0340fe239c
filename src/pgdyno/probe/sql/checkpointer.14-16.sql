-- Until version 16 the checkpointer's counters are in pg_stat_bgwriter. num_timed and
-- num_requested rise when a checkpoint starts; completed ones are not counted separately.
select checkpoints_timed as num_timed, checkpoints_req as num_requested, null as num_done,
       checkpoint_write_time as write_time_ms, checkpoint_sync_time as sync_time_ms,
       buffers_checkpoint as buffers_written
  from pg_stat_bgwriter
