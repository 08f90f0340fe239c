-- A screen of the help desk, which reads a customer and the orders in a transaction. With hold_open
-- the transaction stays open while somebody reads the screen.
\set customer random(1, 10000 * :scale)
begin;
select name, orders, spent_cents from business_customers where id = :customer;
select id, placed, state, total_cents from business_orders where customer = :customer
    order by id desc limit 10;
commit;
