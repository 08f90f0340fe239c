-- Columns of tables, whether an index that covers all rows, and finds single ones, begins with the
-- column, its type, the size of the table with its partitions, and the methods of the indexes that
-- have the column and cover all rows.
with tables as materialized (
    select c.oid, n.nspname || '.' || c.relname as relation,
           coalesce((select sum(pg_catalog.pg_relation_size(part.relid))
                       from pg_catalog.pg_partition_tree(c.oid) as part),
                    pg_catalog.pg_relation_size(c.oid))::int8 as size_bytes
      from pg_catalog.pg_class c
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where n.nspname || '.' || c.relname = any (%s) and c.relkind in ('r', 'p', 'm')
)
select c.relation, a.attname,
       exists (select from pg_catalog.pg_index i
                 join pg_catalog.pg_class ic on ic.oid = i.indexrelid
                 join pg_catalog.pg_am am on am.oid = ic.relam and am.amname in ('btree', 'hash')
                where i.indrelid = c.oid and i.indisvalid and i.indpred is null
                  and i.indkey[0] = a.attnum) as leads_index,
       t.typname as type_name, t.typcategory::text as category, c.size_bytes,
       array(select distinct am.amname::text from pg_catalog.pg_index i
               join pg_catalog.pg_class ic on ic.oid = i.indexrelid
               join pg_catalog.pg_am am on am.oid = ic.relam
              where i.indrelid = c.oid and i.indisvalid and i.indpred is null
                and a.attnum = any (i.indkey::int2[])) as methods
  from tables c
  join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  join pg_catalog.pg_type t on t.oid = a.atttypid
 order by c.oid, a.attnum
