-- Paths of the files of users' tables in this database, of their indexes and TOAST tables; each is the
-- beginning of the names of its segments and forks.
with named as (
    select c.oid, c.reltoastrelid
      from pg_class c
      join pg_namespace n on n.oid = c.relnamespace
     where c.relkind = 'r' and c.relpersistence <> 't' and c.oid >= 16384
       and n.nspname not in ('pg_catalog', 'information_schema')
), heaps as (
    select oid from named
     union
    select reltoastrelid from named where reltoastrelid <> 0
)
select pg_relation_filepath(r.oid)
  from pg_class r
 where r.oid in (select oid from heaps union select indexrelid from pg_index where indrelid in (select oid from heaps))
   and r.relkind in ('r', 't', 'i')
 order by 1
