-- ALTER SYSTEM's values as written in the file, of which the last line counts. Needs privileges on
-- pg_file_settings, which by default only superusers have. While a file cannot be parsed, the view
-- lacks the files after it, and the only row has no name and the error.
with files as materialized (select * from pg_file_settings),
     failed as (
    select concat_ws(': ', sourcefile || ', line ' || sourceline, error) as error
      from files
     where name is null and error is not null
     order by seqno
     limit 1
)
select null as name, error as value from failed
 union all
(select distinct on (lower(name)) lower(name), setting
   from files
  where sourcefile like '%%/postgresql.auto.conf' and lower(name) = any (%(names)s::text[])
    and not exists (select from failed)
  order by lower(name), seqno desc)
