-- True if one of these tables of a schema, or a partition of one, is unlogged, or one is missing.
with wanted as (
    select c.oid, c.relpersistence
      from pg_class c
      join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = %(schema)s and c.relname = any (%(names)s::name[])
       and c.relkind in ('r', 'p')
)
select (select count(*) from wanted) < cardinality(%(names)s::name[])
       or exists (select from wanted where relpersistence <> 'p')
       or exists (select from pg_inherits i join pg_class c on c.oid = i.inhrelid
                   where i.inhparent in (select oid from wanted) and c.relpersistence <> 'p')
