-- Client sessions of this database within a transaction, each with its statement.
select a.pid, (extract(epoch from a.xact_start) * 1e6)::bigint as began_us,
       (extract(epoch from a.query_start) * 1e6)::bigint as sent_us, a.query_id::text as query_id
  from pg_stat_activity a
 where a.datname = current_database() and a.backend_type = 'client backend'
   and a.pid <> pg_backend_pid() and a.xact_start is not null and a.query_start is not null
   and a.query_id is not null
