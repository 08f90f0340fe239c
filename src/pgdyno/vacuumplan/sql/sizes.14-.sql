-- Bytes of tables with their TOAST: pg_class has none before the first vacuum or analyze. Takes a
-- weak lock on each, so those that are locked against all are left out, and lock_timeout bounds it.
select t.oid::bigint as oid, pg_table_size(t.oid)::bigint as bytes
  from unnest(%(oids)s::bigint[]) as given(oid), lateral (select given.oid::oid) as t(oid)
 where not exists (select from pg_locks l
                    where l.relation = t.oid and l.mode = 'AccessExclusiveLock'
                      and l.database = (select oid from pg_database
                                         where datname = current_database()))
