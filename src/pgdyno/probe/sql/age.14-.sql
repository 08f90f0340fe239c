-- Per database: the age of its oldest transaction ID and multixact, and the kind of holder of the
-- oldest xmin, which holds back vacuum. Slots and standbys hold back every database, backends and
-- prepared transactions their own. Without the probe's own snapshot; only the database under load
-- and the ten oldest databases.
with holder (datname, kind, age) as (
    select datname, 'backend', age(backend_xmin)
      from pg_stat_activity
     where backend_xmin is not null and pid <> pg_backend_pid()
       and backend_type is distinct from 'walsender'
    union all
    select database, 'prepared', age(transaction) from pg_prepared_xacts
    union all
    select null, 'slot', greatest(age(xmin), age(catalog_xmin))
      from pg_replication_slots
     where xmin is not null or catalog_xmin is not null
    union all
    select null, 'standby', age(backend_xmin)
      from pg_stat_replication
     where backend_xmin is not null
)
select d.datname as database, age(d.datfrozenxid) as xid_age, mxid_age(d.datminmxid) as mxid_age,
       h.age as xmin_age, h.kind as xmin_holder
  from pg_database d
  left join lateral (
      select holder.age, holder.kind
        from holder
       where holder.datname = d.datname or holder.datname is null
       order by holder.age desc
       limit 1) h on true
 where d.datname = current_database()
    or d.oid in (select oid from pg_database order by age(datfrozenxid) desc limit 10)
