-- Views of users, not of extensions, with their queries.
select n.nspname as schema, c.relname as name, pg_get_viewdef(c.oid) as sql
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'v' and c.oid >= 16384
   and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_(toast|temp)'
   and not exists (select from pg_depend d
                    where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
 order by c.oid
 limit %(most)s
