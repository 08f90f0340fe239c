-- The system catalogues of the database under load with most dead rows. Temporary tables and DDL
-- leave them; no relation is locked.
select s.schemaname || '.' || s.relname as relation, s.n_tup_upd, s.n_tup_del, s.n_live_tup,
       s.n_dead_tup, s.vacuum_count, s.autovacuum_count
  from pg_stat_sys_tables s
 where s.schemaname = 'pg_catalog'
 order by s.n_dead_tup desc, s.relid
 limit 8
