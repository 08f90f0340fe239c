-- Every relation of this database that has files, and of the shared catalogue, by the path of its
-- first file. A TOAST table goes by the name of the table it belongs to.
select pg_relation_filepath(c.oid) as path,
       coalesce(owner.oid::regclass::text || ' (TOAST)', c.oid::regclass::text) as name,
       c.relkind::text as kind
from pg_class as c
left join pg_class as owner on owner.reltoastrelid = c.oid
where pg_relation_filepath(c.oid) is not null
