-- Backend types of processes other than client backends, for their CPU figures; and of client
-- backends, those of others (as in foreign) that have worked lately.
select pid, case when backend_type = 'client backend' then 'client backend of others'
                 else backend_type end as role
  from pg_stat_activity
 where backend_type is not null
   and (backend_type <> 'client backend'
        or pid <> pg_backend_pid() and application_name not like 'pgdyno %'
           and (application_name not like 'pgdyno%' or datname <> current_database())
           and (state = 'active' or state_change > now() - interval '10 s'))
