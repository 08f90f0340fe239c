-- What a session is doing; NULL where we may not know.
select coalesce(state, '') as state from pg_stat_activity where pid = %s
