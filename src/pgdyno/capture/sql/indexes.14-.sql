-- Indexes of some tables that are not of keys; null in place of the text of one that has values.
select i.indrelid::bigint as table_id, i.indisunique as is_unique,
       array(select a.attname::text
               from unnest(i.indkey[0 : i.indnkeyatts - 1]) with ordinality as key (number, place)
               join pg_attribute a on a.attrelid = i.indrelid and a.attnum = key.number
              order by key.place) as columns,
       i.indpred is null and i.indexprs is null as is_plain,
       case when concat(pg_get_expr(i.indpred, i.indrelid), pg_get_expr(i.indexprs, i.indrelid))
                 !~ '''|(^|[^\w])\d'
            then substring(pg_get_indexdef(i.indexrelid) from ' (USING .*)$') end as sql
  from pg_index i
 where i.indrelid = any (%(tables)s::oid[]) and i.indisvalid
   and not exists (select from pg_constraint k
                    where k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x'))
 order by i.indrelid, i.indexrelid
