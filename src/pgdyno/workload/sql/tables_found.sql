-- Tables of a workload found along the search path, with the comment in which pgdyno marks its own.
select c.relname::text as name, n.nspname::text as schema, c.relkind::text as kind,
       obj_description(c.oid, 'pg_class') as comment,
       exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary) as keyed,
       array(select a.attname::text from pg_attribute a
              where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
              order by a.attnum) as columns
  from unnest(%(names)s::text[]) as wanted (name)
  join pg_class c on c.oid = to_regclass(wanted.name)
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p', 'v', 'm', 'f')
 order by c.relname
