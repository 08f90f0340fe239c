-- Heap, TOAST and indexes together. Takes a weak lock on each table, so lock_timeout bounds it.
select s.schemaname || '.' || s.relname as relation, pg_total_relation_size(s.relid) as size_bytes
  from pg_stat_user_tables s
  join pg_class c on c.oid = s.relid
 where c.relkind in ('r', 'm') and c.relpersistence <> 't'
 order by s.n_tup_ins + s.n_tup_upd + s.n_tup_del desc, s.relid
 limit 50
