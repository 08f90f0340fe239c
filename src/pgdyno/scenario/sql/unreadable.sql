-- Tables and sequences of users that the role may not read, and of which row-level security hides
-- rows from it.
select quote_ident(n.nspname) || '.' || quote_ident(c.relname),
       has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p', 'S')
   and c.relpersistence <> 't'
   and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
   and not exists (select from pg_depend d
                    where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
   and (not has_schema_privilege(n.oid, 'usage') or not has_table_privilege(c.oid, 'select')
        or (c.relkind <> 'S' and row_security_active(c.oid)))
 order by 1
