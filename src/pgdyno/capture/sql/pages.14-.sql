-- Pages that the statements of this database have read, in memory or not.
select queryid::text as id, sum(shared_blks_hit + shared_blks_read)::float8 as pages
  from {schema}.pg_stat_statements(false)
 where dbid = (select oid from pg_database where datname = current_database())
   and queryid is not null and toplevel
 group by queryid
