-- Statistics of tables of eight pages or more for the planner: whether there are any, and statements
-- that undo what keeps ANALYZE from making good ones. Those that a role may not see are taken to be
-- there.
select n.nspname || '.' || c.relname as relation,
       (exists (select from pg_catalog.pg_stats s
                 where s.schemaname = n.nspname and s.tablename = c.relname)
        or c.relrowsecurity or not pg_catalog.has_table_privilege(c.oid, 'select')) as has_statistics,
       array(select case when a.attstattarget = 0
                         then pg_catalog.format('alter table %%I.%%I alter column %%I set statistics -1',
                                                n.nspname, c.relname, a.attname)
                         else pg_catalog.format('alter table %%I.%%I alter column %%I reset (n_distinct)',
                                                n.nspname, c.relname, a.attname) end
               from pg_catalog.pg_attribute a
              where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                and (a.attstattarget = 0 or a.attoptions::text like '%%n_distinct=%%')
              order by a.attnum) as repairs
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where n.nspname || '.' || c.relname = any (%s) and c.relkind in ('r', 'm')
   and c.relpersistence <> 't' and pg_catalog.pg_relation_size(c.oid) >= 65536
 order by relation
