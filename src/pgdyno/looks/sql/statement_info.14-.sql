-- Statements that pg_stat_statements has evicted because it was full.
select dealloc, extract(epoch from clock_timestamp() - stats_reset)::float8 as counters_s
  from {schema}.pg_stat_statements_info
