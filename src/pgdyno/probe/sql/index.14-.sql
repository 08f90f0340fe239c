-- Indexes of the database under load, those of the most written tables first. Updates of one of
-- table_columns, or of any column where has_expression is 1, are not HOT, except for BRIN since
-- version 16. enforces: the index is there for a constraint or a replica identity, read or not.
with chosen as materialized (
    select oid, pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid)
                + pg_stat_get_tuples_deleted(oid) as written
      from pg_class
     where relkind in ('r', 'm') and relpersistence <> 't' and oid >= 16384
     order by written desc, oid
     limit 200
)
select s.schemaname || '.' || s.relname as relation, s.indexrelname as index_name,
       m.amname as method, s.idx_scan,
       (i.indisunique or i.indisexclusion or i.indisreplident)::int as enforces,
       (i.indexprs is not null or i.indpred is not null)::int as has_expression,
       (select string_agg(a.attname, ',' order by a.attnum) from pg_attribute a
         where a.attrelid = s.relid and a.attnum = any (i.indkey)) as table_columns
  from pg_stat_user_indexes s
  join pg_index i on i.indexrelid = s.indexrelid
  join pg_class c on c.oid = s.indexrelid
  join pg_am m on m.oid = c.relam
  join chosen t on t.oid = s.relid
 where s.relid = any (array(select oid from chosen)) and c.relpersistence <> 't'
 order by t.written desc, s.indexrelid
 limit 200
