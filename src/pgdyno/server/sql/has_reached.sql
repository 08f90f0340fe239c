-- True if the receiver named %(name)s streams and has flushed (with %(replayed)s, also replayed)
-- WAL up to %(target)s.
select coalesce(bool_or(
         state = 'streaming'
         and flush_lsn >= %(target)s::pg_lsn
         and (not %(replayed)s or replay_lsn >= %(target)s::pg_lsn)), false)
from pg_stat_replication
where application_name = %(name)s
