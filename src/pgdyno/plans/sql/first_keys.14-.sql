-- The first key of indexes with these names, a column or an expression, by schema.name.
select n.nspname || '.' || ic.relname as index_name, pg_catalog.pg_get_indexdef(i.indexrelid, 1, true)
  from pg_catalog.pg_index i
  join pg_catalog.pg_class ic on ic.oid = i.indexrelid
  join pg_catalog.pg_namespace n on n.oid = ic.relnamespace
  join pg_catalog.pg_am am on am.oid = ic.relam
 where ic.relname = any (%s) and i.indnkeyatts > 1 and am.amname = 'btree'
