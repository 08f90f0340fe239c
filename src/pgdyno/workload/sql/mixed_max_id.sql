select coalesce(max(id), 0) from {schema}.test_table
