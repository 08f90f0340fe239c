-- Objects that a new database does not have: relations, routines, types, schemas, extensions, large
-- objects. Members of an extension and parts of another object are not listed.
select 'relation' as kind, n.nspname::text as schema, c.relname::text as name, null as arguments
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p', 'v', 'm', 'f', 'S') and not c.relispartition
   and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
   and not exists (select from pg_depend d where d.objid = c.oid and d.deptype in ('e', 'i', 'a')
                      and d.classid = 'pg_class'::regclass)
union all
select 'routine', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace
 where n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
   and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e'
                      and d.classid = 'pg_proc'::regclass)
union all
select 'type', n.nspname, t.typname, null
  from pg_type t
  join pg_namespace n on n.oid = t.typnamespace
 where n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
   and t.typtype in ('d', 'e', 'r') and not exists (
       select from pg_depend d where d.objid = t.oid and d.deptype = 'e'
          and d.classid = 'pg_type'::regclass)
union all
select 'schema', nspname, nspname, null from pg_namespace
 where nspname !~ '^pg_' and nspname not in ('information_schema', 'public')
union all
select 'extension', '', extname, null from pg_extension where extname <> 'plpgsql'
union all
select 'large object', '', oid::text, null from pg_largeobject_metadata
union all
select 'publication', '', pubname, null from pg_publication
union all
select 'subscription', '', subname, null from pg_stat_subscription
 order by 1, 2, 3
