-- B-tree indexes of at least 128 pages whose columns are the first ones of another index of the
-- table, and that enforce nothing.
with large as materialized (
    select i.indexrelid, i.indrelid, i.indkey, i.indclass::oid[] as classes,
           i.indcollation::oid[] as collations, i.indoption, i.indnkeyatts as columns,
           c.relname, c.relnamespace, c.relpages,
           i.indisunique or i.indisexclusion or i.indisreplident as enforces,
           i.indnatts = i.indnkeyatts as plain
      from pg_index i
      join pg_class c on c.oid = i.indexrelid
      join pg_am m on m.oid = c.relam and m.amname = 'btree'
     where c.relpages >= 128 and c.relkind = 'i' and not c.relispartition
       and i.indrelid >= 16384 and i.indisvalid and i.indexprs is null and i.indpred is null
     order by c.relpages desc
     limit 5000
)
select format('%I.%I', n.nspname, t.relname) as relation,
       format('%I.%I', n.nspname, a.relname) as index_name, a.relpages as pages,
       format('%I.%I', n.nspname, min(b.relname)) as longer, min(b.relpages) as longer_pages
  from large a
  join large b on b.indrelid = a.indrelid and b.columns > a.columns
   and (b.indkey::int2[])[0:a.columns - 1] = (a.indkey::int2[])[0:a.columns - 1]
   and b.classes[0:a.columns - 1] = a.classes[0:a.columns - 1]
   and b.collations[0:a.columns - 1] = a.collations[0:a.columns - 1]
   and (b.indoption::int2[])[0:a.columns - 1] = (a.indoption::int2[])[0:a.columns - 1]
  join pg_class t on t.oid = a.indrelid
  join pg_namespace n on n.oid = a.relnamespace
 where a.plain and not a.enforces
 group by n.nspname, t.relname, a.relname, a.relpages
 order by a.relpages desc, a.relname
 limit 50
