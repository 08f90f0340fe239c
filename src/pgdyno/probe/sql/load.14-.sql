-- The load of others: transactions that ended in all databases, pgdyno's own included; sessions, of
-- which those of other roles are hidden from a role without the rights of pg_read_all_stats. These
-- have this text as their query. A parallel worker that ended while they were read has no type
-- either, whatever the rights.
select sum(xact_commit + xact_rollback)::bigint as transactions,
       sum(xact_rollback)::bigint as rolled_back,
       (select count(*)
          from pg_stat_activity
         where backend_type = 'client backend'
           and application_name not like 'pgdyno %') as sessions,
       (select count(*)
          from pg_stat_activity
         where backend_type is null and datid is not null
           and query = '<insufficient privilege>') as hidden_sessions
  from pg_stat_database
