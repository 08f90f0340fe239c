-- Rows made by the server itself, as pgbench's step G makes them.
insert into {pgbench_branches} (bid, bbalance)
select bid, 0 from generate_series(1, {branches}) as bid;
insert into {pgbench_tellers} (tid, bid, tbalance)
select tid, (tid - 1) / 10 + 1, 0 from generate_series(1, {tellers}) as tid;
insert into {pgbench_accounts} (aid, bid, abalance, filler)
select aid, (aid - 1) / 100000 + 1, 0, '' from generate_series(1, {accounts}) as aid;
