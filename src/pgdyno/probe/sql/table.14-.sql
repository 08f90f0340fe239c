-- The tables of the database under load, the most written first. No relation is locked: sizes,
-- which need a lock, are in table_size.
select s.schemaname || '.' || s.relname as relation, s.n_tup_ins, s.n_tup_upd, s.n_tup_del,
       s.n_tup_hot_upd, s.n_live_tup, s.n_dead_tup, s.vacuum_count, s.autovacuum_count,
       s.analyze_count, s.autoanalyze_count, s.seq_scan, s.idx_scan, io.heap_blks_read,
       io.heap_blks_hit, io.idx_blks_read, io.idx_blks_hit, age(c.relfrozenxid) as xid_age
  from pg_stat_user_tables s
  join pg_statio_user_tables io on io.relid = s.relid
  join pg_class c on c.oid = s.relid
 where c.relkind in ('r', 'm') and c.relpersistence <> 't'
 order by s.n_tup_ins + s.n_tup_upd + s.n_tup_del desc, s.relid
 limit 50
