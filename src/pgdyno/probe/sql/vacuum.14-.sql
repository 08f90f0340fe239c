-- Vacuums in progress. Names of relations are known only in the database under load.
select p.pid,
       coalesce(n.nspname || '.' || c.relname, p.datname || '/' || p.relid::text,
                'relation ' || coalesce(p.relid::text, '?')) as relation,
       coalesce(p.phase, '') as phase,
       coalesce(a.backend_type = 'autovacuum worker', false) as automatic,
       coalesce(a.query like '%(to prevent wraparound)%', false) as to_prevent_wraparound,
       p.heap_blks_total, p.heap_blks_scanned, p.heap_blks_vacuumed, p.index_vacuum_count
  from pg_stat_progress_vacuum p
  left join pg_stat_activity a on a.pid = p.pid
  left join pg_class c on c.oid = p.relid and p.datname = current_database()
  left join pg_namespace n on n.oid = c.relnamespace
