-- The context of a setting, true if the role is a superuser, and the server's major version.
select context,
       current_setting('is_superuser') = 'on',
       current_setting('server_version_num')::int / 10000
  from pg_settings
 where lower(name) = %(name)s
