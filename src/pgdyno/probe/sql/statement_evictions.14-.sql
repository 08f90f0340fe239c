-- How often pg_stat_statements has evicted statements because it was full, and the beginning of its
-- counts.
select dealloc, coalesce(stats_reset::text, '') as since from {schema}.pg_stat_statements_info
