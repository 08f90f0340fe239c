-- The first schema that is not among those of a search path and has all of the named tables.
select quote_ident(n.nspname) as schema, quote_ident(current_user) as role,
       has_schema_privilege(n.oid, 'usage') as may_use
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relname = any (%(names)s::text[])
   and c.relkind in ('r', 'p', 'v', 'm', 'f')
   and n.nspname <> 'information_schema'
   and n.nspname !~ '^pg_'
   and n.nspname <> all (%(schemas)s::name[])
 group by n.oid, n.nspname
having count(*) = cardinality(%(names)s::text[])
 order by n.nspname
 limit 1
