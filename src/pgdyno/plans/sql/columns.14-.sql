-- Columns of tables, and whether an index that covers all rows, and finds single ones, begins with the
-- column.
select n.nspname || '.' || c.relname as relation, a.attname,
       exists (select from pg_catalog.pg_index i
                 join pg_catalog.pg_class ic on ic.oid = i.indexrelid
                 join pg_catalog.pg_am am on am.oid = ic.relam and am.amname in ('btree', 'hash')
                where i.indrelid = c.oid and i.indisvalid and i.indpred is null
                  and i.indkey[0] = a.attnum) as leads_index,
       pg_catalog.pg_relation_size(c.oid) as size_bytes
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where n.nspname || '.' || c.relname = any (%s) and c.relkind in ('r', 'p', 'm')
 order by c.oid, a.attnum
