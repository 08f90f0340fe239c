-- Every ordinary table of the database, whether it is logged, and the tables that its foreign keys
-- reference.
select c.oid::bigint, n.nspname, c.relname, c.relpersistence = 'p' as logged,
       coalesce(array_agg(k.confrelid::bigint) filter (where k.oid is not null), '{}') as refers_to
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join pg_constraint k on k.conrelid = c.oid and k.contype = 'f' and k.confrelid <> c.oid
where c.relkind = 'r' and c.relpersistence in ('p', 'u')
  and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
group by c.oid, n.nspname, c.relname, c.relpersistence
order by n.nspname, c.relname
