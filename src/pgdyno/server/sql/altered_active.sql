-- ALTER SYSTEM's values in force, for members of pg_read_all_settings: others see no sourcefile.
select lower(name), setting
  from pg_settings
 where sourcefile like '%%/postgresql.auto.conf' and lower(name) = any (%(names)s::text[])
