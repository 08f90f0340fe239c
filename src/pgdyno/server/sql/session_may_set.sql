-- Who may change a setting, and whether we are one of those who may change any.
select context,
       current_setting('is_superuser') = 'on',
       current_setting('server_version_num')::int / 10000
  from pg_settings
 where lower(name) = %(name)s
