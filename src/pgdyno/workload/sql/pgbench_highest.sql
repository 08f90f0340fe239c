-- The highest account and teller, which do not match the scale after an interrupted setup.
select (select coalesce(max(aid), 0) from {pgbench_accounts}),
       (select coalesce(max(tid), 0) from {pgbench_tellers})
