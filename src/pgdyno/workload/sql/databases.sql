-- Databases that accept connections, with the comment in which pgdyno marks its own.
select datname::text as name, shobj_description(oid, 'pg_database') as comment,
       pg_has_role(datdba, 'usage') as droppable
  from pg_database
 where datallowconn and not datistemplate
 order by datname
