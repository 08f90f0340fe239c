-- Client backends by state, zero-filled; without pgdyno's own control and probe sessions.
select s.state, count(a.pid) as count,
       extract(epoch from max(clock_timestamp() - a.xact_start))::float8 * 1000 as xact_age_ms_max
  from (values ('active'), ('idle'), ('idle in transaction'), ('idle in transaction (aborted)'),
               ('fastpath function call'), ('disabled')) s (state)
  left join pg_stat_activity a
         on a.state = s.state and a.backend_type = 'client backend'
            and a.application_name not like 'pgdyno %'
 group by s.state
