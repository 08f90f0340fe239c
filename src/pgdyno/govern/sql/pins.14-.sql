-- What keeps old rows from being frozen, the oldest first: in all databases, or in one; in all
-- tables (rows_age) or in catalogs alone (age). A vacuum's own snapshot keeps nothing.
select kind, name, age::bigint, detail, database, rows_age::bigint from (
    select 'slot' as kind, slot_name::text as name, greatest(age(xmin), age(catalog_xmin)) as age,
           case when active then 'in use' else 'not in use' end as detail,
           null as database, age(xmin) as rows_age
      from pg_replication_slots
     where xmin is not null or catalog_xmin is not null
    union all
    select 'prepared transaction', gid, age(transaction), 'in database ' || database,
           database::text, age(transaction)
      from pg_prepared_xacts
    union all
    select 'standby', coalesce(nullif(application_name, ''), pid::text), age(backend_xmin),
           'hot_standby_feedback', null, age(backend_xmin)
      from pg_stat_replication
     where backend_xmin is not null
    union all
    select 'session', pid::text, greatest(age(backend_xid), age(backend_xmin)),
           concat_ws(', ', nullif(application_name, ''), usename, state),
           datname::text, greatest(age(backend_xid), age(backend_xmin))
      from pg_stat_activity a
     where backend_type in ('client backend', 'background worker', 'parallel worker')
       and (backend_xid is not null or backend_xmin is not null)
       and pid <> pg_backend_pid()
       and not exists (select from pg_stat_progress_vacuum v where v.pid = a.pid)
) holders
 order by age desc, kind, name
 limit 20
