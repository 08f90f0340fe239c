-- True if a session waits for its client, between statements or within COPY; false if not visible.
select coalesce(state like 'idle%%' or wait_event = 'ClientRead', false) as waits
from pg_stat_activity
where pid = %s
