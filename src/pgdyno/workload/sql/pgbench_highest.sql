-- The highest account and teller: other than the scale says after a set-up that was cut short.
select (select coalesce(max(aid), 0) from pgbench_accounts),
       (select coalesce(max(tid), 0) from pgbench_tellers)
