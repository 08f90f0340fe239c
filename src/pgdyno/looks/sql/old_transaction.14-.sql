-- The oldest transactions of client sessions, without pgdyno's own. Clients of a load, which have
-- the name 'pgdyno' or 'pgdyno/' with their group, are another pgdyno's.
select pid, datname as database, usename as role, application_name as application,
       coalesce(state, '') as state,
       extract(epoch from clock_timestamp() - xact_start)::float8 as transaction_s,
       extract(epoch from clock_timestamp() - state_change)::float8 as state_s,
       greatest(age(backend_xid), age(backend_xmin)) as xmin_age,
       left(query, 200) as query
  from pg_stat_activity
 where backend_type = 'client backend' and xact_start is not null
   and application_name not like 'pgdyno %'
 order by xact_start
 limit 20
