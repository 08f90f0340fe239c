-- The sums of the amounts that pgbench's transactions have added to each of its tables.
select (select coalesce(sum(abalance), 0) from <schema>.pgbench_accounts)::bigint,
    (select coalesce(sum(tbalance), 0) from <schema>.pgbench_tellers)::bigint,
    (select coalesce(sum(bbalance), 0) from <schema>.pgbench_branches)::bigint,
    (select coalesce(sum(delta), 0) from <schema>.pgbench_history)::bigint;
