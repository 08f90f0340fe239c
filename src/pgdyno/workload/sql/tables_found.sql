-- Tables of a workload found along a list of schemas, the first of each name, with the comment in
-- which pgdyno marks its own.
select t.relname::text as name, t.nspname::text as schema, t.relkind::text as kind,
       obj_description(t.oid, 'pg_class') as comment,
       exists (select from pg_index i where i.indrelid = t.oid and i.indisprimary) as keyed,
       array(select a.attname::text from pg_attribute a
              where a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
              order by a.attnum) as columns,
       not exists (select from pg_attribute a
                     join pg_type y on y.oid = a.atttypid
                    where a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
                      and y.typnamespace <> 'pg_catalog'::regnamespace) as plain
  from (select distinct on (c.relname) c.oid, c.relname, c.relkind, n.nspname
          from pg_class c
          join pg_namespace n on n.oid = c.relnamespace
         where c.relname = any (%(names)s::name[]) and n.nspname = any (%(schemas)s::name[])
         order by c.relname, array_position(%(schemas)s::name[], n.nspname)) t
 where t.relkind in ('r', 'p', 'v', 'm', 'f')
 order by t.relname
