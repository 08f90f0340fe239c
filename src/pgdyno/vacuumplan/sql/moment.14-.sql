-- The clock, the next transaction ID, which is not assigned, and the begin of the statistics.
select extract(epoch from clock_timestamp())::float8 as at_s,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next_xid,
       age(d.datfrozenxid)::bigint as database_age,
       extract(epoch from d.stats_reset_at)::float8 as reset_s,
       pg_is_in_recovery() as in_recovery
  from (select datfrozenxid, pg_stat_get_db_stat_reset_time(oid) as stats_reset_at
          from pg_database where datname = current_database()) d
