-- 1 % of the mix: the highest id, for subsequent reads and updates of this client.
select coalesce(max(id), 0) as maxid from test_table \gset
