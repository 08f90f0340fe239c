-- 60 % of the mix: one row of random strings.
\set c1 random_uuid()
\set c2 random_uuid()
\set c3 random_uuid()
\set c4 random_uuid()
\set c5 random_uuid()

insert into test_table (c1, c2, c3, c4, c5) values (:c1, :c2, :c3, :c4, :c5);
