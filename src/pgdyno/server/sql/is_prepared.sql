-- True if the session has a prepared statement of this name.
select exists (select from pg_prepared_statements where name = %s)
