-- A sort that does not fit into work_mem.
\set aid random(1, 100000 * :scale - :rows)
\set last :aid + :rows
select count(*) from (
    select filler, row_number() over (order by abalance, aid) as place
      from pgbench_accounts where aid between :aid and :last) as sorted
 where place % 1000 = 0;
