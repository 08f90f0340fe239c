-- ALTER SYSTEM's values as written in the file, of which the last line counts. Needs privileges on
-- pg_file_settings, which by default only superusers have.
select distinct on (lower(name)) lower(name), setting
  from pg_file_settings
 where sourcefile like '%%/postgresql.auto.conf' and lower(name) = any (%(names)s::text[])
 order by lower(name), seqno desc
