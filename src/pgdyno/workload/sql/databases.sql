-- The databases that one can connect to, with what tells whether pgdyno made them.
select datname::text as name, shobj_description(oid, 'pg_database') as comment,
       pg_has_role(datdba, 'usage') as droppable
  from pg_database
 where datallowconn and not datistemplate
 order by datname
