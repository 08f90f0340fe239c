-- The mark that a pgdyno has left by ALTER SYSTEM, and whether it may come from somewhere else: a
-- role or a database can be given the same parameter by whoever owns it.
select nullif(current_setting('pgdyno.undo', true), '') as mark,
       exists (select from pg_db_role_setting
                where array_to_string(setconfig, ' ') ilike '%pgdyno.undo=%') as doubtful
