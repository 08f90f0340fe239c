-- Some accounts that nobody has read lately.
\set aid random(1, 100000 * :scale)
\set bid random(1, 100000 * :scale)
select abalance from pgbench_accounts where aid in (:aid, :bid);
