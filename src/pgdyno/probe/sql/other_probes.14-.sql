-- Probes of another pgdyno, with the number of transactions that they show as their last statement.
select pid, extract(epoch from backend_start)::float8 as started_unix_s, shown[1]::int as shown
  from pg_stat_activity,
       regexp_match(query, '^select /\* pgdyno \*/ ''pgdyno: (\d{1,9}) transactions of probes''$')
           as shown
 where application_name = 'pgdyno probe' and pid <> pg_backend_pid() and shown is not null
