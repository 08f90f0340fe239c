-- 18 % of the mix: update one random row, selecting it first as "read" does. The generator that
-- this load comes from selected a random row and then updated the one with the highest id: a hot
-- row by accident. Here the row selected is the row updated, as its description says.
\set id random(1, greatest(:maxid, 1))
\set c1 random_uuid()
\set c2 random_uuid()
\set c3 random_uuid()
\set c4 random_uuid()
\set c5 random_uuid()

select id from test_table where id = :id;
update test_table set c1 = :c1, c2 = :c2, c3 = :c3, c4 = :c4, c5 = :c5 where id = :id;
