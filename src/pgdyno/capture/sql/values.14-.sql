-- Values that the statistics of some tables have: a capture must not.
select distinct left(value, 200) as value
  from pg_stats s
  join pg_class c on c.oid = any (%(tables)s::oid[]) and c.relname = s.tablename
  join pg_namespace n on n.oid = c.relnamespace and n.nspname = s.schemaname,
       unnest(coalesce(s.most_common_vals::text::text[], '{}')
              || coalesce(s.histogram_bounds::text::text[], '{}')) as value
 where length(value) >= %(characters)s
 limit 100000
