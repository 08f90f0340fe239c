-- True if the lock was free. It is held until the session ends.
select pg_try_advisory_lock(%(key)s) as taken
