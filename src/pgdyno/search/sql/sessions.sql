-- Sessions in all databases, also those that this role may not see in pg_stat_activity.
select coalesce(sum(numbackends), 0)::int from pg_stat_database
