-- Tables of this database with their counters since the statistics began; system catalogs are left
-- to PostgreSQL, and temporary tables to their sessions. relallfrozen is there from version 18 on.
select c.oid::bigint as oid, format('%%I.%%I', n.nspname, c.relname) as relation,
       greatest(c.reltuples, 0)::float8 as rows, c.relpages::bigint as pages,
       pg_stat_get_tuples_inserted(c.oid) as inserted, pg_stat_get_tuples_updated(c.oid) as updated,
       pg_stat_get_tuples_hot_updated(c.oid) as hot, null::bigint as newpage,
       pg_stat_get_tuples_deleted(c.oid) as deleted, pg_stat_get_live_tuples(c.oid) as live,
       pg_stat_get_dead_tuples(c.oid) as dead, age(c.relfrozenxid)::bigint as xid_age,
       coalesce(c.reloptions, '{}') as options,
       coalesce((to_jsonb(c) ->> 'relallfrozen')::bigint, 0) as frozen_pages,
       (select count(*) from pg_index i where i.indrelid = c.oid) as indexes
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'm') and c.relpersistence <> 't'
   and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
 order by pg_stat_get_tuples_inserted(c.oid) + pg_stat_get_tuples_updated(c.oid)
          + pg_stat_get_tuples_deleted(c.oid) desc, c.oid
 limit %(count)s
