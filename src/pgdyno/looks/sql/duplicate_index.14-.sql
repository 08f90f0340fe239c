-- Indexes of one table that are the same: method, columns, operator classes, collations, order,
-- included columns, expressions and predicate. The one to keep comes first: one that enforces
-- something, then the one with the most scans.
with alike as materialized (
    select array_agg(indexrelid) as ids
      from pg_index
     where indisvalid and indrelid >= 16384
     group by indrelid, indkey::text, indclass::text, indcollation::text, indoption::text,
              indnkeyatts, indexprs is null, indpred is null
    having count(*) > 1
), member as materialized (
    select i.*, c.relname, c.relnamespace, c.relpages, c.relam,
           pg_get_expr(i.indexprs, i.indrelid) as expressions,
           pg_get_expr(i.indpred, i.indrelid) as predicate,
           i.indisunique or i.indisexclusion or i.indisreplident as enforces,
           pg_stat_get_numscans(i.indexrelid) as scans
      from (select unnest(ids) as id from (select ids from alike limit 2000) a) u
      join pg_index i on i.indexrelid = u.id
      join pg_class c on c.oid = i.indexrelid
     where c.relkind = 'i' and not c.relispartition
), grouped as (
    select indrelid, array_agg(relname order by enforces desc, scans desc, indexrelid) as names,
           array_agg(enforces order by enforces desc, scans desc, indexrelid) as enforcing,
           array_agg(relpages order by enforces desc, scans desc, indexrelid) as pages,
           min(relnamespace::oid) as schema
      from member
     group by indrelid, relam, indkey::text, indclass::text, indcollation::text,
              indoption::text, indnkeyatts, expressions, predicate
    having count(*) > 1
)
select format('%I.%I', n.nspname, t.relname) as relation,
       format('%I.%I', n.nspname, g.names[1]) as kept,
       format('%I.%I', n.nspname, g.names[k]) as index_name, g.pages[k] as pages,
       g.enforcing[k] as enforces,
       pg_stat_get_tuples_inserted(t.oid) + pg_stat_get_tuples_updated(t.oid)
           + pg_stat_get_tuples_deleted(t.oid) as n_written
  from grouped g
  join pg_class t on t.oid = g.indrelid
  join pg_namespace n on n.oid = g.schema,
       generate_series(2, cardinality(g.names)) k
 order by g.pages[k] desc, index_name
 limit 50
