-- True if the role may read pg_file_settings; by default only superusers may.
select has_table_privilege('pg_file_settings', 'select')
   and has_function_privilege('pg_show_all_file_settings()', 'execute')
