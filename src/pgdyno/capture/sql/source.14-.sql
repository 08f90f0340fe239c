-- What decides which statements are seen.
select current_setting('compute_query_id') as query_ids,
       pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_others
