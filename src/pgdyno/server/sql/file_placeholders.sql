-- Settings of libraries that are not loaded, whose value in the files differs from the session's; none
-- while a file cannot be parsed.
with files as materialized (select * from pg_file_settings),
     filed as (
    select distinct on (lower(name)) lower(name) as name, setting
      from files
     where error is null and position('.' in name) > 0
     order by lower(name), seqno desc
)
select f.name
  from filed f
 where not exists (select from pg_settings p where lower(p.name) = f.name)
   and current_setting(f.name, true) is distinct from f.setting
   and not exists (
       select from pg_db_role_setting s, unnest(s.setconfig) as each
        where lower(split_part(each, '=', 1)) = f.name)
   and not exists (select from files where name is null and error is not null)
 order by f.name
