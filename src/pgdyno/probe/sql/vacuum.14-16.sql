-- Vacuums in progress. Names of relations are known only in the database under load; that of a
-- TOAST table is its table's.
-- dead_full is the part of its memory for dead rows that is used. Indexes, and delay_ms, the time
-- slept, are known since versions 17 and 18.
select p.pid,
       coalesce(n.nspname || '.' || c.relname
                    || case when o.oid is null then '' else ' (TOAST)' end,
                p.datname || '/' || p.relid::text,
                'relation ' || coalesce(p.relid::text, '?')) as relation,
       coalesce(p.phase, '') as phase,
       coalesce(a.backend_type = 'autovacuum worker', false) as automatic,
       coalesce(a.query like '%(to prevent wraparound)%', false) as to_prevent_wraparound,
       p.heap_blks_total, p.heap_blks_scanned, p.heap_blks_vacuumed, p.index_vacuum_count,
       p.num_dead_tuples::float8 / greatest(p.max_dead_tuples, 1) as dead_full,
       null::int as indexes_total, null::int as indexes_processed,
       null::float8 as delay_ms
  from pg_stat_progress_vacuum p
  left join pg_stat_activity a on a.pid = p.pid
  left join pg_class o on o.reltoastrelid = p.relid and p.datname = current_database()
  left join pg_class c on c.oid = coalesce(o.oid, p.relid) and p.datname = current_database()
  left join pg_namespace n on n.oid = c.relnamespace
