-- The tables of the database under load, the most written first. No relation is locked: sizes,
-- which need a lock, are in table_size. Since version 16 updates that put the row on another page
-- are counted.
with chosen as materialized (
    select oid, pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid)
                + pg_stat_get_tuples_deleted(oid) as written
      from pg_class
     where relkind in ('r', 'm') and relpersistence <> 't' and oid >= 16384
     order by written desc, oid
     limit 50
)
select s.schemaname || '.' || s.relname as relation, s.n_tup_ins, s.n_tup_upd, s.n_tup_del,
       s.n_tup_hot_upd, s.n_tup_newpage_upd, s.n_live_tup, s.n_dead_tup, s.vacuum_count,
       s.autovacuum_count, s.analyze_count, s.autoanalyze_count, s.seq_scan, s.seq_tup_read,
       s.idx_scan, io.heap_blks_read, io.heap_blks_hit, io.idx_blks_read, io.idx_blks_hit,
       age(c.relfrozenxid) as xid_age,
       (select age(t.relfrozenxid) from pg_class t where t.oid = c.reltoastrelid) as toast_xid_age,
       (select option_value::int from pg_options_to_table(c.reloptions)
         where option_name = 'fillfactor') as fillfactor
  from pg_stat_user_tables s
  join pg_statio_user_tables io on io.relid = s.relid
   and io.relid = any (array(select oid from chosen))
  join pg_class c on c.oid = s.relid
 where s.relid = any (array(select oid from chosen))
 order by s.n_tup_ins + s.n_tup_upd + s.n_tup_del desc, s.relid
