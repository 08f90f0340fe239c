-- The user's tables: quoted name, relation name, size. Partitions and child tables, which are written
-- through another table, are excluded.
select format('%I.%I', n.nspname, c.relname) as name, c.relname as relation, pg_table_size(c.oid) as bytes
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'm')
    and c.relpersistence = 'p'
    and n.nspname !~ '^pg_'
    and n.nspname not in ('information_schema', 'pgdyno_drill')
    and c.relname <> 'pgdyno_witness'
    and not exists (select from pg_inherits i where i.inhrelid = c.oid)
order by 1;
