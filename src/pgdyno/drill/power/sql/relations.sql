-- All relations of this database and of the shared catalog that have files, by the path of the first
-- file. A TOAST table has the name of its table.
select pg_relation_filepath(c.oid) as path,
       coalesce(owner.oid::regclass::text || ' (TOAST)', c.oid::regclass::text) as name,
       c.relkind::text as kind
from pg_class as c
left join pg_class as owner on owner.reltoastrelid = c.oid
where pg_relation_filepath(c.oid) is not null
