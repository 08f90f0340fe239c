-- Client sessions of this database that were busy within the last second, each with its last
-- statement; the beginning of its transaction is null outside of one.
select a.pid, (extract(epoch from a.xact_start) * 1e6)::bigint as began_us,
       (extract(epoch from a.query_start) * 1e6)::bigint as sent_us, a.query_id::text as query_id
  from pg_stat_activity a
 where a.datname = current_database() and a.backend_type = 'client backend'
   and a.pid <> pg_backend_pid() and a.query_start is not null and a.query_id is not null
   and (a.xact_start is not null or a.state_change > clock_timestamp() - interval '1 s')
