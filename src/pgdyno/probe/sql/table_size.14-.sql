-- Heap, TOAST and indexes together. Takes a weak lock on each table, so lock_timeout bounds it.
with chosen as materialized (
    select oid, pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid)
                + pg_stat_get_tuples_deleted(oid) as written
      from pg_class
     where relkind in ('r', 'm') and relpersistence <> 't' and oid >= 16384
     order by written desc, oid
     limit 50
)
select s.schemaname || '.' || s.relname as relation, pg_total_relation_size(s.relid) as size_bytes
  from pg_stat_user_tables s
 where s.relid = any (array(select oid from chosen))
 order by s.n_tup_ins + s.n_tup_upd + s.n_tup_del desc, s.relid
