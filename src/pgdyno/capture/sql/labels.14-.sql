-- Labels of enums that are used by columns of some tables, by their place, and how many there are.
select e.enumlabel as label,
       row_number() over (partition by e.enumtypid order by e.enumsortorder)::int as place,
       count(*) over (partition by e.enumtypid)::int as labels
  from pg_enum e
 where e.enumtypid in (select coalesce(nullif(t.typbasetype, 0), t.oid)
                         from pg_attribute a
                         join pg_type t on t.oid = a.atttypid
                        where a.attrelid = any (%(tables)s::oid[]) and a.attnum > 0)
 order by e.enumtypid, e.enumsortorder
