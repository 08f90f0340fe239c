-- The mark that pgdyno has set by ALTER SYSTEM, and true if it may come from somewhere else: the
-- parameter can also be set for a role or a database by its owner.
select nullif(current_setting('pgdyno.undo', true), '') as mark,
       exists (select from pg_db_role_setting
                where array_to_string(setconfig, ' ') ilike '%pgdyno.undo=%') as doubtful
