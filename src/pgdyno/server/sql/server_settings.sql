-- Settings that differ from their built-in default, and those that matter to a write-heavy run.
select name, current_setting(name)
  from pg_settings
 where name = any (%(names)s::text[])
    or (source not in ('default', 'override', 'client', 'session')
        and name !~ '(^|_)(file|directory|directories|command|conninfo|password|name)$'
        and name !~ '^(lc_|log_(dest|file|line|rot|time|trunc)|listen_|unix_|primary_|password_|ssl_|krb_|TimeZone|DateStyle)')
 order by name
