-- Transactions of this database.
select xact_commit + xact_rollback as transactions from pg_stat_database
 where datname = current_database()
