-- Transactions of this database, and the beginning of its statistics.
select xact_commit + xact_rollback as transactions, coalesce(stats_reset::text, '') as since
  from pg_stat_database
 where datname = current_database()
