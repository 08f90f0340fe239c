-- State and wait event of every process, grouped, without background processes idle in their main
-- loop, except the checkpointer, whose idle times delimit checkpoints. Statement texts only of the
-- database under load; without pgdyno's control and probe sessions.
select coalesce(backend_type, '') as backend_type, coalesce(state, '') as state,
       coalesce(wait_event_type, '') as wait_event_type, coalesce(wait_event, '') as wait_event,
       case when state = 'active' and datname = current_database()
            then left(query, 200) end as statement,
       count(*) as count,
       extract(epoch from clock_timestamp() - statement_timestamp())::float8 as took_s
  from pg_stat_activity
 where application_name not like 'pgdyno %' and pid <> pg_backend_pid()
   and (wait_event_type is distinct from 'Activity' or backend_type = 'checkpointer')
   and backend_type is not null
 group by 1, 2, 3, 4, 5
