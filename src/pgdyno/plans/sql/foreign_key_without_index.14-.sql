-- The referencing table and columns of foreign keys that no index serves: none begins with these
-- columns, in any order.
select con.conname, n.nspname || '.' || c.relname as relation,
       array(select a.attname from unnest(con.conkey) with ordinality k(num, place)
              join pg_catalog.pg_attribute a on a.attrelid = con.conrelid and a.attnum = k.num
             order by k.place) as columns
  from pg_catalog.pg_constraint con
  join pg_catalog.pg_class c on c.oid = con.conrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where con.contype = 'f' and con.conname = any (%s)
   and not exists (
       select from pg_catalog.pg_index i
        where i.indrelid = con.conrelid and i.indisvalid and i.indpred is null
          and (i.indkey::int2[])[0 : cardinality(con.conkey) - 1] operator(pg_catalog.@>) con.conkey)
