-- Indexes of tables with their sizes, and with what their use and their method say: no scan has read
-- it since the counters began, and it enforces nothing and no other object needs it (not unique, not
-- of a constraint, a replica identity or an index of partitions); it has a list of pending entries;
-- the table can be written again in its order; the table has a fillfactor.
select n.nspname || '.' || c.relname as relation, n.nspname || '.' || ic.relname as index_name,
       pg_catalog.pg_relation_size(ic.oid) as size_bytes,
       pg_catalog.pg_stat_get_numscans(i.indexrelid) = 0
       and not (i.indisunique or i.indisexclusion or i.indisreplident) and not ic.relispartition
       and not exists (
           select from pg_catalog.pg_depend d
            where d.refclassid = 'pg_catalog.pg_class'::regclass and d.refobjid = i.indexrelid
       ) as is_unread,
       am.amname = 'gin' and not exists (
           select from pg_catalog.pg_options_to_table(ic.reloptions) o
            where o.option_name = 'fastupdate' and not o.option_value::bool
       ) as has_pending_list,
       am.amname = 'btree' and i.indpred is null and c.relkind = 'r' as is_order,
       pg_catalog.pg_relation_size(c.oid) as table_bytes,
       coalesce((select pg_catalog.sum(s.avg_width) from pg_catalog.pg_stats s
                  where s.schemaname = n.nspname and s.tablename = c.relname and not s.inherited), 0
       )::float8 as row_bytes,
       exists (select from pg_catalog.pg_options_to_table(c.reloptions) o
                where o.option_name = 'fillfactor') as has_fillfactor
  from pg_catalog.pg_index i
  join pg_catalog.pg_class c on c.oid = i.indrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_class ic on ic.oid = i.indexrelid
  join pg_catalog.pg_am am on am.oid = ic.relam
 where n.nspname || '.' || c.relname = any (%s) and i.indisvalid
 order by relation, index_name
