-- The columns of the table that the mixed workload finds in its way, none when it is not there.
select attname::text
  from pg_attribute
 where attrelid = to_regclass('public.test_table') and attnum > 0 and not attisdropped
 order by attnum
