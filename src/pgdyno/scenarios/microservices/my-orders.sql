-- A customer reads the most recent orders.
\set customer random(1, 50000)
select id, placed, state from orders where customer = :customer order by placed desc limit 10;
