-- All relations with rows in files: tables, including system catalogs, and materialized views.
select c.oid::regclass::text as name,
    case c.relkind when 'm' then format('(table %s)', c.oid::regclass) else c.oid::regclass::text end
from pg_class c
where c.relkind in ('r', 'm') and c.relpersistence <> 't' and (c.relkind = 'r' or c.relispopulated)
order by 1;
