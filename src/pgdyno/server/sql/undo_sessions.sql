-- Sessions that change or guard settings, by the names that they go under; others' are seen too.
select pid, application_name
  from pg_stat_activity
 where application_name like 'pgdyno undo %' or application_name like 'pgdyno guardian %'
