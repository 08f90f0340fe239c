-- All orders of a customer: without an index on customer, the whole table is read.
\set customer random(0, 976)
select sum(total) from orders where customer = :customer;
