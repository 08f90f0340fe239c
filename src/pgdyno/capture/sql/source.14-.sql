-- The present time as the server's log has it, the database as lines of it name it, and what decides
-- which statements are seen.
select to_char(clock_timestamp() at time zone current_setting('log_timezone'),
               'YYYY-MM-DD HH24:MI:SS.MS') as now,
       current_database() as database, current_setting('compute_query_id') as query_ids,
       pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_others
