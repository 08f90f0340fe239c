-- The number of standbys that lack WAL that is flushed on the primary.
select count(*)
from pg_stat_replication
where state = 'streaming' and application_name <> 'pg_basebackup'
    and flush_lsn < pg_current_wal_flush_lsn();
