-- Settings of roles and databases, which come before those of the configuration files.
select coalesce(d.datname, '') as database, coalesce(r.rolname, '') as role,
       split_part(c.entry, '=', 1) as name,
       case when split_part(c.entry, '=', 1) ~ '(_command|conninfo|passphrase)' then '(set)'
            else substr(c.entry, strpos(c.entry, '=') + 1) end as setting
  from pg_db_role_setting s
  left join pg_database d on d.oid = s.setdatabase
  left join pg_roles r on r.oid = s.setrole,
       unnest(s.setconfig) c (entry)
 order by 1, 2, 3
 limit 1000
