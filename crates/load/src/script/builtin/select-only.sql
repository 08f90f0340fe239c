-- Read one account by its key.
\set aid random(1, 100000 * :scale)

select abalance from pgbench_accounts where aid = :aid;
