-- Tables of users in this database, quoted and qualified, without those that pgdyno pins ages with.
select quote_ident(n.nspname) || '.' || quote_ident(c.relname)
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and c.relpersistence <> 't' and c.oid >= 16384
   and n.nspname not in ('pg_catalog', 'information_schema') and c.relname <> 'pgdyno_age'
 order by 1
