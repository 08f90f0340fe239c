-- Sessions that change or guard settings, by application_name; visible for all users.
select pid, application_name
  from pg_stat_activity
 where application_name like 'pgdyno undo %' or application_name like 'pgdyno guardian %'
