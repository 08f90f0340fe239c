-- Bytes of tables that are dropped first, and the directory of the tablespace of new tables.
select (select coalesce(sum(pg_total_relation_size(format('%%I.%%I', s, n)::regclass)), 0)
          from unnest(%(schemas)s::text[], %(names)s::text[]) as t (s, n)) as freed,
       (select pg_tablespace_location(t.oid)
          from pg_tablespace t, pg_database d
         where d.datname = current_database()
           and t.oid = coalesce(
                   (select oid from pg_tablespace where spcname = coalesce(
                       %(tablespace)s::text, nullif(current_setting('default_tablespace'), ''))),
                   d.dattablespace)) as location
