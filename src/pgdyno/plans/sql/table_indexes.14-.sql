-- Indexes of tables: their keys in order, each a column or an expression, with its operator class and
-- collation (that of the database by its provider), and what keeps an index from being used.
select n.nspname || '.' || c.relname as relation, n.nspname || '.' || ic.relname as index_name,
       am.amname as method, i.indisvalid, coalesce(pg_catalog.pg_get_expr(i.indpred, i.indrelid), ''),
       array(select pg_catalog.pg_get_indexdef(i.indexrelid, k::int, true)
               from pg_catalog.generate_series(1, i.indnkeyatts::int) k order by k) as keys,
       array(select o.opcname::text
               from unnest(i.indclass::oid[]) with ordinality as key (class, place)
               join pg_catalog.pg_opclass o on o.oid = key.class order by key.place) as classes,
       array(select case when l.collname = 'default' then d.collation_name
                         else coalesce(l.collname::text, '') end
               from unnest(i.indcollation::oid[]) with ordinality as key (collation_oid, place)
               left join pg_catalog.pg_collation l on l.oid = key.collation_oid
              order by key.place) as collations
  from pg_catalog.pg_index i
  join pg_catalog.pg_class c on c.oid = i.indrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_class ic on ic.oid = i.indexrelid
  join pg_catalog.pg_am am on am.oid = ic.relam
  cross join (
      select case pg_catalog.to_jsonb(db) ->> 'datlocprovider'
             when 'b' then 'C' when 'i' then 'icu' else db.datcollate::text end as collation_name
        from pg_catalog.pg_database db where db.datname = pg_catalog.current_database()
  ) d
 where n.nspname || '.' || c.relname = any (%s)
 order by relation, index_name
