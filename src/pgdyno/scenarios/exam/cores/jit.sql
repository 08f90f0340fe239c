-- A short query whose expressions are compiled each time.
\set aid random(1, 100000 * :scale - :rows)
\set last :aid + :rows
select sum(abalance + 1), avg(bid * 2), max(aid % 7) from pgbench_accounts
 where aid between :aid and :last;
