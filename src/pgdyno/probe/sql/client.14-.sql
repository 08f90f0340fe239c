-- Client sessions by role, application, client address and state, with their ages in the buckets of
-- record/sessionages.py: less than 1 s, 10 s, 1 min, 10 min, 1 h, and longer. One row for each
-- group and not for each session, so that thousands of sessions cost little. Without pgdyno's own
-- control and probe sessions. state is NULL where this role may not see it: so is that of a session
-- that is still starting (from version 18 on "starting"), which is not one of these yet. A parallel
-- worker that has ended has no backend_type either, but the text of its query.
with sessions as (
    select coalesce(usename::text, '') as role, coalesce(application_name, '') as application,
           coalesce(host(client_addr), '') as address, state,
           extract(epoch from clock_timestamp() - xact_start)::float8 as xact_s,
           width_bucket(extract(epoch from clock_timestamp() - state_change)::float8,
                        '{1,10,60,600,3600}'::float8[]) as in_state,
           width_bucket(extract(epoch from clock_timestamp() - xact_start)::float8,
                        '{1,10,60,600,3600}'::float8[]) as in_transaction,
           width_bucket(extract(epoch from clock_timestamp() - backend_start)::float8,
                        '{1,10,60,600,3600}'::float8[]) as connected,
           state = 'idle' and state_change - backend_start < interval '1 s' as unused
      from pg_stat_activity
     where (backend_type = 'client backend' and coalesce(state, 'starting') <> 'starting'
            or backend_type is null and datid is not null and query = '<insufficient privilege>')
       and coalesce(application_name, '') not like 'pgdyno %'
)
select role, application, address, state, count(*) as count,
       count(*) filter (where unused) as unused, max(xact_s) * 1000 as xact_age_ms_max,
       array[count(*) filter (where in_state = 0),
             count(*) filter (where in_state = 1),
             count(*) filter (where in_state = 2),
             count(*) filter (where in_state = 3),
             count(*) filter (where in_state = 4),
             count(*) filter (where in_state = 5)]
           as state_ages,
       array[count(*) filter (where in_transaction = 0),
             count(*) filter (where in_transaction = 1),
             count(*) filter (where in_transaction = 2),
             count(*) filter (where in_transaction = 3),
             count(*) filter (where in_transaction = 4),
             count(*) filter (where in_transaction = 5)]
           as transaction_ages,
       array[count(*) filter (where connected = 0),
             count(*) filter (where connected = 1),
             count(*) filter (where connected = 2),
             count(*) filter (where connected = 3),
             count(*) filter (where connected = 4),
             count(*) filter (where connected = 5)]
           as connection_ages
  from sessions
 group by role, application, address, state
