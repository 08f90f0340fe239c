-- The scale: the number of branches.
select count(*) from {pgbench_branches}
