-- Client sessions other than pgdyno's. Sessions of other roles are counted too where this role may
-- not see more of them than their database; a parallel worker that has just ended is none.
select count(*)::int
  from pg_stat_activity
 where datid is not null and pid <> pg_backend_pid()
   and (backend_type = 'client backend'
        or backend_type is null and query = '<insufficient privilege>')
   and coalesce(application_name, '') not like 'pgdyno%'
