-- Databases and their statistics.
select d.datname as database, age(d.datfrozenxid) as xid_age, mxid_age(d.datminmxid) as mxid_age,
       s.checksum_failures, s.temp_files, s.temp_bytes, s.blks_read, s.blks_hit,
       s.xact_commit + s.xact_rollback as transactions, s.deadlocks,
       extract(epoch from clock_timestamp() - s.stats_reset)::float8 as counters_s,
       d.datname = current_database() as current
  from pg_database d
  left join pg_stat_database s on s.datid = d.oid
 where d.datallowconn
 order by s.xact_commit + s.xact_rollback desc nulls last
 limit 200
