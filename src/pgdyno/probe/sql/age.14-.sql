-- Per database: the age of its oldest transaction ID and multixact, and the holder of the oldest
-- xmin of its tables, which holds back vacuum. Slots and standbys hold back every database,
-- backends and prepared transactions their own; a catalog_xmin holds back system catalogs only, and
-- vacuums hold back nothing. Snapshots taken since have the same xmin as the transaction that they
-- wait for, so it comes first. Without the probe's own snapshot; only the database under load and
-- the ten oldest databases.
with holder (datname, kind, name, age, held_ms, about) as (
    select datname, 'backend', pid::text, greatest(age(backend_xid), age(backend_xmin)),
           extract(epoch from clock_timestamp() - xact_start)::float8 * 1000,
           concat_ws(', ', nullif(state, ''), coalesce(nullif(application_name, ''), backend_type))
      from pg_stat_activity
     where coalesce(backend_xid, backend_xmin) is not null and pid <> pg_backend_pid()
       and backend_type is distinct from 'walsender'
       and pid not in (select pid from pg_stat_progress_vacuum)
    union all
    select database, 'prepared', gid, age(transaction),
           extract(epoch from clock_timestamp() - prepared)::float8 * 1000, owner::text
      from pg_prepared_xacts
    union all
    select null, 'slot', slot_name, age(xmin), null,
           slot_type || case when active then ', active' else ', inactive' end
      from pg_replication_slots
     where xmin is not null
    union all
    select null, 'standby', coalesce(application_name, ''), age(backend_xmin), null, state
      from pg_stat_replication
     where backend_xmin is not null
)
select d.datname as database, age(d.datfrozenxid) as xid_age, mxid_age(d.datminmxid) as mxid_age,
       h.age as xmin_age, h.kind as xmin_holder, h.name as xmin_holder_name,
       h.held_ms as xmin_held_ms, h.about as xmin_holder_about
  from pg_database d
  left join lateral (
      select *
        from holder
       where holder.datname = d.datname or holder.datname is null
       order by holder.age desc, holder.kind = 'backend', holder.held_ms desc nulls last
       limit 1) h on true
 where d.datname = current_database()
    or d.oid in (select oid from pg_database order by age(datfrozenxid) desc limit 10)
