-- Indexes of tables, each with what its use and its method say: no scan has read it since the
-- counters began, and it enforces nothing and no other object needs it (not unique, not of a
-- constraint, a replica identity or an index of partitions); it has a list of pending entries.
select n.nspname || '.' || c.relname as relation, n.nspname || '.' || ic.relname as index_name,
       pg_catalog.pg_stat_get_numscans(i.indexrelid) = 0
       and not (i.indisunique or i.indisexclusion or i.indisreplident) and not ic.relispartition
       and not exists (
           select from pg_catalog.pg_depend d
            where d.refclassid = 'pg_catalog.pg_class'::regclass and d.refobjid = i.indexrelid
       ) as is_unread,
       am.amname = 'gin' and not exists (
           select from pg_catalog.pg_options_to_table(ic.reloptions) o
            where o.option_name = 'fastupdate' and not o.option_value::bool
       ) as has_pending_list
  from pg_catalog.pg_index i
  join pg_catalog.pg_class c on c.oid = i.indrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_class ic on ic.oid = i.indexrelid
  join pg_catalog.pg_am am on am.oid = ic.relam
 where n.nspname || '.' || c.relname = any (%s)
 order by relation, index_name
