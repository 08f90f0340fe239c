select name from pg_settings order by name
