-- The context of a setting, true if the role is a superuser, the server's major version, and where the
-- value comes from.
select context,
       current_setting('is_superuser') = 'on',
       current_setting('server_version_num')::int / 10000,
       source
  from pg_settings
 where lower(name) = %(name)s
