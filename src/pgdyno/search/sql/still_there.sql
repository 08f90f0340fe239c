-- Processes that were ended and are still there.
select count(*) from pg_stat_activity where pid = any(%s)
