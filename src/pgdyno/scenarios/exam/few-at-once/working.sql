-- The client's own work, for which it needs no server, between two short statements.
\set aid random(1, 100000 * :scale)
select abalance from pgbench_accounts where aid = :aid;
\sleep :work_ms ms
select bbalance from pgbench_branches where bid = 1;
