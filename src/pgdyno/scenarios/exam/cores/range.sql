-- Some milliseconds of work on one core: a range of an index is added up.
\set aid random(1, 100000 * :scale - :rows)
\set last :aid + :rows
select sum(abalance) from pgbench_accounts where aid between :aid and :last;
