-- Tables with the most values stored out of line, and the columns whose values are compressed by
-- the default method or by pglz.
select format('%I.%I', n.nspname, c.relname) as relation, t.relpages as toast_pages,
       pg_stat_get_tuples_inserted(t.oid) as n_toast_ins,
       (select string_agg(format('%I', a.attname), ', ' order by a.attnum)
          from pg_attribute a
         where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
           and a.attstorage in ('x', 'm') and a.attcompression in ('', 'p')) as columns
  from (select oid, relpages from pg_class
         where relkind = 't' and relpages >= 128 order by relpages desc limit 20) t
  join pg_class c on c.reltoastrelid = t.oid
  join pg_namespace n on n.oid = c.relnamespace
 where n.nspname not in ('pg_catalog', 'information_schema')
 order by t.relpages desc
