-- One row for each of pgbench's tables that is there: its name and whether it has a primary key
-- (history has none, by design).
select relname::text,
       exists (select from pg_index where indrelid = pg_class.oid and indisprimary)
  from pg_class
 where oid in (to_regclass('public.pgbench_accounts'), to_regclass('public.pgbench_branches'),
               to_regclass('public.pgbench_tellers'), to_regclass('public.pgbench_history'))
