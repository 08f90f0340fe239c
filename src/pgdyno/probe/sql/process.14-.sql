-- Backend types of processes other than client backends, for their CPU figures; and of client
-- backends, those of others (as in foreign) that have worked lately.
select pid, case when backend_type = 'client backend' then 'client backend of others'
                 else backend_type end as role
  from pg_stat_activity
 where backend_type is not null
   and (backend_type <> 'client backend'
        or pid <> pg_backend_pid() and application_name not like 'pgdyno %'
           and (application_name not like 'pgdyno%' or datname <> current_database())
           and not (application_name = 'postgres_fdw'
                    and (client_addr is null or host(client_addr) in ('127.0.0.1', '::1')))
           and (state = 'active' or state_change > now() - interval '10 s'))
