-- True if a table of pgbench is unlogged or missing.
select coalesce(bool_or(relpersistence <> 'p'), true)
from pg_class
where oid in (
    to_regclass('pgbench_accounts'),
    to_regclass('pgbench_tellers'),
    to_regclass('pgbench_branches'),
    to_regclass('pgbench_history')
);
