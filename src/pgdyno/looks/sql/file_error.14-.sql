-- Lines of the configuration files that the server cannot use. A change that waits for a restart
-- has an error too.
select name, error, sourceline, regexp_replace(sourcefile, '^.*/', '') as file
  from pg_file_settings
 where error is not null
   and name not in (select name from pg_settings where pending_restart)
 limit 20
