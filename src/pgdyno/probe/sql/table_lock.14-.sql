-- Locks held on tables that exclude autovacuum, which takes ShareUpdateExclusiveLock, with the
-- statements of their holders. Such locks are not in the fast path. Read only while there are dead
-- rows.
with held as materialized (
    select pid, relation, mode
      from pg_locks
     where locktype = 'relation' and granted and relation >= 16384
       and mode in ('ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock',
                    'ExclusiveLock', 'AccessExclusiveLock')
       and database = (select oid from pg_database where datname = current_database())
)
select n.nspname || '.' || c.relname as relation, h.mode,
       coalesce(s.backend_type, '') as backend_type,
       nullif(left(s.query, 200), '<insufficient privilege>') as statement,
       count(*) as holders
  from held h
  join pg_class c on c.oid = h.relation and c.relkind in ('r', 'm')
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_stat_activity s on s.pid = h.pid
 group by 1, 2, 3, 4
