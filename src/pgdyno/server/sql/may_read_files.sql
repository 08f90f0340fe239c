-- True if pg_file_settings may be read, which only superusers may unless somebody granted it.
select has_table_privilege('pg_file_settings', 'select')
   and has_function_privilege('pg_show_all_file_settings()', 'execute')
