-- Functions and procedures of users, not of extensions; the texts of those in SQL and PL/pgSQL.
select p.oid::bigint as id, n.nspname as schema, p.proname as name,
       case when l.lanname in ('sql', 'plpgsql') then pg_get_functiondef(p.oid) end as sql,
       coalesce(p.prosrc, '') as body
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace
  join pg_language l on l.oid = p.prolang
 where p.oid >= 16384 and p.prokind in ('f', 'p')
   and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_(toast|temp)'
   and not exists (select from pg_depend d
                    where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
 order by p.oid
 limit %(most)s
