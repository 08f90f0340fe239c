-- lock
-- Heavyweight locks that backends wait for, with their holders and waiters; no row when none waits.
-- pg_locks locks every lock partition in turn, so it is read only when pg_stat_activity, which
-- locks none, shows a waiter. A row lock held by a waiter is also returned: it gives the table of
-- the row when the waiter itself waits for a transaction to end. Process 0: a prepared transaction.
with locks as materialized (
    select *, concat_ws('/', locktype, database, relation, page, tuple, virtualxid, transactionid,
                        classid, objid, objsubid) as target
      from pg_locks
     where (select exists (select from pg_stat_activity where wait_event_type = 'Lock'))
), chosen as materialized (
    select l.*
      from locks l
     where l.target in (select target from locks where not granted)
        or l.locktype = 'tuple' and l.pid in (select pid from locks where not granted)
), sessions as materialized (
    select * from pg_stat_activity where (select exists (select from chosen))
)
select coalesce(l.pid, 0) as pid, l.locktype, l.mode, l.granted, l.target,
       case when not l.granted
            then extract(epoch from clock_timestamp() - l.waitstart)::float8 * 1000 end as wait_ms,
       (select n.nspname || '.' || c.relname
          from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where c.oid = l.relation
           and l.database = (select oid from pg_database
                              where datname = current_database())) as relation,
       nullif(left(s.query, 200), '<insufficient privilege>') as statement,
       case when l.pid is null then 'prepared' else coalesce(s.state, '') end as state,
       coalesce(s.backend_type, '') as backend_type,
       extract(epoch from clock_timestamp() - s.xact_start)::float8 * 1000 as transaction_ms,
       extract(epoch from clock_timestamp() - s.state_change)::float8 * 1000 as state_ms
  from chosen l
  left join sessions s on s.pid = l.pid
