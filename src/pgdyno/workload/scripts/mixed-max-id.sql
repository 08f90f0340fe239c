-- 1 % of the mix: the highest id, which this client's reads and updates go by from now on.
select coalesce(max(id), 0) as maxid from test_table \gset
