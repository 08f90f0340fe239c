-- What tells the scale: the number of branches. The other two catch a set-up that was cut short.
select (select count(*) from pgbench_branches),
       (select count(*) from pgbench_tellers),
       (select coalesce(max(aid), 0) from pgbench_accounts)
