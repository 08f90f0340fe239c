-- How often pg_stat_statements has thrown out statements for want of room.
select dealloc from {schema}.pg_stat_statements_info
