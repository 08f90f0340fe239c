-- A customer looks at the last orders.
\set customer random(1, 50000)
select id, placed, state from orders where customer = :customer order by placed desc limit 10;
