-- Probes of another pgdyno, with the number of transactions that they show as their last statement.
select pid, extract(epoch from backend_start)::float8 as started_unix_s,
       substring(query from '^select ''pgdyno: (\d{1,9}) transactions of probes''$')::int as shown
  from pg_stat_activity
 where application_name = 'pgdyno probe' and pid <> pg_backend_pid()
   and query ~ '^select ''pgdyno: \d{1,9} transactions of probes''$'
