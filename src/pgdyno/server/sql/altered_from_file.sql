-- What ALTER SYSTEM has written, word for word. A later line of the file wins. Needs rights on
-- pg_file_settings, which only superusers have unless somebody granted them.
select distinct on (name) name, setting
  from pg_file_settings
 where sourcefile like '%%/postgresql.auto.conf' and name = any (%(names)s::text[])
 order by name, seqno desc
