-- The same through pg_settings, for members of pg_read_all_settings: sourcefile is null for others.
select lower(name), setting
  from pg_settings
 where sourcefile like '%%/postgresql.auto.conf' and lower(name) = any (%(names)s::text[])
