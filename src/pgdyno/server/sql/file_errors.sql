select name, error from pg_file_settings where error is not null limit 1
