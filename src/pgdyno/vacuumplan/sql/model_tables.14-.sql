-- Sizes, rows and vacuums of the tables of the model, and the oldest transaction ID of them.
select sum(pg_total_relation_size(s.relid))::float8 as bytes, sum(s.n_dead_tup)::float8 as dead,
       sum(s.n_live_tup)::float8 as live, sum(s.autovacuum_count)::float8 as vacuums,
       max(pg_snapshot_xmax(pg_current_snapshot())::text::bigint)::float8 as next_xid,
       max(pg_snapshot_xmax(pg_current_snapshot())::text::bigint)::float8
         - max(age(c.relfrozenxid))::float8 as oldest_xid
  from pg_stat_user_tables s
  join pg_class c on c.oid = s.relid
