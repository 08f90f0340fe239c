-- Client sessions by state, without pgdyno's own; those of a load are another pgdyno's.
select coalesce(state, '') as state, count(*) as sessions,
       extract(epoch from max(clock_timestamp() - state_change))::float8 as state_s_max,
       extract(epoch from max(clock_timestamp() - xact_start))::float8 as transaction_s_max
  from pg_stat_activity
 where backend_type = 'client backend' and application_name not like 'pgdyno %'
 group by 1
