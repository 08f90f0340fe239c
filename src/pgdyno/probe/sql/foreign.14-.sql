-- Load that is not pgdyno's, by database: active sessions of others and, for databases other than
-- the one under load, their statistics. Clients of a load have the name 'pgdyno', or 'pgdyno/' with
-- their group; in another database they belong to another load. Sessions that postgres_fdw opens on
-- the same machine are a load's own work. state is NULL where this role may not see it.
with others as (
    select datid, count(*) as at_work
      from pg_stat_activity
     where state = 'active' and backend_type = 'client backend' and pid <> pg_backend_pid()
       and application_name not like 'pgdyno %'
       and (application_name not like 'pgdyno%' or datname <> current_database())
       and not (application_name = 'postgres_fdw'
                and (client_addr is null or host(client_addr) in ('127.0.0.1', '::1')))
     group by datid
)
select d.datname as database, coalesce(w.at_work, 0) as at_work,
       case when d.datname <> current_database() then xact_commit + xact_rollback end
           as transactions,
       case when d.datname <> current_database() then tup_inserted + tup_updated + tup_deleted end
           as rows_written,
       case when d.datname <> current_database() then active_time end as active_time_ms
  from pg_stat_database d
  left join others w using (datid)
 where d.datname is not null
