-- The schema of the function with which HypoPG supposes an index. It is in C, which only superusers
-- can make, so that it is the extension's own.
select n.nspname
  from pg_catalog.pg_extension e
  join pg_catalog.pg_depend d on d.refobjid = e.oid and d.deptype = 'e'
       and d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
       and d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass
  join pg_catalog.pg_proc p on p.oid = d.objid and p.proname = 'hypopg_create_index'
  join pg_catalog.pg_language l on l.oid = p.prolang and l.lanname = 'c'
  join pg_catalog.pg_namespace n on n.oid = p.pronamespace
 where e.extname = 'hypopg' and pg_catalog.has_function_privilege(p.oid, 'execute')
   and pg_catalog.has_schema_privilege(n.oid, 'usage')
