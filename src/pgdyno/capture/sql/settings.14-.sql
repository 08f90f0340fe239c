-- Settings as a new session of the load has them: of all settings that are no text, by the value
-- that RESET gives, or by that of the role with the most sessions. A value of this role's own is
-- none of the load's. And whether commits wait for a standby.
with load as (
    select a.usesysid as role, d.oid as database
      from pg_stat_activity a join pg_database d on d.oid = a.datid
     where d.datname = current_database() and a.backend_type = 'client backend'
       and a.application_name not like 'pgdyno%'
     group by a.usesysid, d.oid
     order by count(*) desc
     limit 1
), of_role as (
    select distinct on (split_part(entry, '=', 1)) split_part(entry, '=', 1) as name,
           substr(entry, strpos(entry, '=') + 1) as value
      from load
      join pg_db_role_setting s on s.setrole = load.role and s.setdatabase in (0, load.database),
           unnest(s.setconfig) as entry
     order by 1, s.setdatabase desc
)
select s.name, s.unit, s.reset_val as value, s.boot_val as boot, of_role.value as of_role,
       s.source in ('user', 'database user') as is_of_this_role,
       s.source in ('default', 'override') as is_default,
       (select setting <> '' from pg_settings where name = 'synchronous_standby_names') as waits
  from pg_settings s
  left join of_role on of_role.name = s.name
 where s.vartype in ('bool', 'integer', 'real', 'enum') and s.context <> 'internal'
