-- Texts of some statements of this database.
select queryid::text as id, min(left(query, %(characters)s)) as text
  from {schema}.pg_stat_statements
 where queryid::text = any (%(ids)s)
   and dbid = (select oid from pg_database where datname = current_database())
 group by queryid
