-- What ALTER SYSTEM has written, word for word. A later line of the file wins. Needs rights on
-- pg_file_settings, which only superusers have unless somebody granted them.
select distinct on (lower(name)) lower(name), setting
  from pg_file_settings
 where sourcefile like '%%/postgresql.auto.conf' and lower(name) = any (%(names)s::text[])
 order by lower(name), seqno desc
