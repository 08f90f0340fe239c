-- The database in which most sessions are at work, or most transactions ended, of those that this
-- role may connect to.
select d.datname as database
  from pg_database d
  join pg_stat_database s on s.datid = d.oid
 where d.datallowconn and not d.datistemplate and has_database_privilege(d.oid, 'connect')
 order by (select count(*)
             from pg_stat_activity a
            where a.datid = d.oid and a.state <> 'idle' and a.pid <> pg_backend_pid()) desc,
          s.xact_commit + s.xact_rollback desc, d.datname
 limit 1
