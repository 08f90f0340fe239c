-- How often pg_stat_statements has evicted statements because it was full.
select dealloc from {schema}.pg_stat_statements_info
