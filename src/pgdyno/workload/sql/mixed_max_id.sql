select coalesce(max(id), 0) from test_table
