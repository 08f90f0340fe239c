-- Rows as the load inserts them, so that the vacuums have something to do: about 300 MB with indexes.
insert into test_table (c1, c2, c3, c4, c5)
select gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid()
  from generate_series(1, 500000);
