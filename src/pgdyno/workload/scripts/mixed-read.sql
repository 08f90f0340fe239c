-- 20 % of the mix: a random row from 1 to the highest id that this client has read. On an empty
-- table that is row 1, which does not exist yet.
\set id random(1, greatest(:maxid, 1))

select id, c1, c2, c3, c4, c5 from test_table where id = :id;
