-- 18 % of the mix: select a random row as "read" does, and update it. The load generator that this
-- mix is taken from selected a random row but updated the one with the highest id, contrary to its
-- description, which made that a hot row.
\set id random(1, greatest(:maxid, 1))
\set c1 random_uuid()
\set c2 random_uuid()
\set c3 random_uuid()
\set c4 random_uuid()
\set c5 random_uuid()

select id from test_table where id = :id;
update test_table set c1 = :c1, c2 = :c2, c3 = :c3, c4 = :c4, c5 = :c5 where id = :id;
