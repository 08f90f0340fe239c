-- Settings whose text in the files differs from the value in force, with the files' value. reset_val
-- is the session's value at its start. Settings that something else overrides in this session are
-- excluded, because their value in other sessions is not visible. While a file cannot be parsed, a
-- reload changes nothing, and there are no rows.
with files as materialized (select * from pg_file_settings),
     filed as (
    select distinct on (lower(name)) lower(name) as name, setting
      from files
     where error is null and name is not null
     order by lower(name), seqno desc
)
select p.name, coalesce(p.reset_val, ''), p.unit, p.vartype, p.min_val, p.max_val, p.enumvals,
       p.context, p.source, p.pending_restart, current_setting('server_version_num')::int,
       case when f.name is null then coalesce(p.boot_val, '') else f.setting end
  from pg_settings p
       left join filed f on f.name = lower(p.name)
 where p.context not in ('internal', 'postmaster')
   and p.source in ('default', 'environment variable', 'configuration file')
   and (f.name is not null or p.source = 'configuration file')
   and coalesce(p.reset_val, '') <> case when f.name is null then coalesce(p.boot_val, '') else f.setting end
   and not exists (select from files where name is null and error is not null)
 order by p.name
