-- Client sessions of this database that were busy within the last second, each with its wait and its
-- last statement, which is null while a prepared COMMIT is executed; the beginning of its
-- transaction is null outside of one. Of the text only whether it has parameters, as that of the
-- simple protocol has not, and its hash. Without pgdyno's probes.
select a.pid, (extract(epoch from a.xact_start) * 1e6)::bigint as began_us,
       (extract(epoch from a.query_start) * 1e6)::bigint as sent_us, a.query_id::text as query_id,
       a.query ~ '\$[0-9]' as has_parameters, hashtext(a.query) as text, a.state, coalesce(a.wait_event_type, '') as wait_event_type,
       coalesce(a.wait_event, '') as wait_event
  from pg_stat_activity a
 where a.datname = current_database() and a.backend_type = 'client backend'
   and a.pid <> pg_backend_pid() and a.query_start is not null
   and a.application_name not like 'pgdyno %'
   and (a.xact_start is not null or a.state_change > clock_timestamp() - interval '1 s')
