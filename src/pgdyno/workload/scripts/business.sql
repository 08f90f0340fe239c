-- A business transaction: an order of six or seven items, as an application without stored procedures
-- sends it, one statement after the other: 30 or 34 statements. Each item is from a seventh of the
-- products of its own, in ascending order, so that two orders never wait for each other in a circle.
\set customer random(1, 10000 * :scale)
\set seventh 10000 * :scale / 7
\set items random(6, 7)
\set total 0

begin;

select name, spent_cents from business_customers where id = :customer;
insert into business_orders (customer) values (:customer) returning id as order_id \gset

\set product random(1, :seventh)
\set quantity random(1, 3)
select price_cents from business_products where id = :product \gset
select in_stock from business_stock where product = :product;
update business_stock set in_stock = in_stock - :quantity where product = :product;
insert into business_order_lines (order_id, line, product, quantity, price_cents)
    values (:order_id, 1, :product, :quantity, :price_cents);
\set total :total + :quantity * :price_cents

\set product random(1, :seventh) + :seventh
\set quantity random(1, 3)
select price_cents from business_products where id = :product \gset
select in_stock from business_stock where product = :product;
update business_stock set in_stock = in_stock - :quantity where product = :product;
insert into business_order_lines (order_id, line, product, quantity, price_cents)
    values (:order_id, 2, :product, :quantity, :price_cents);
\set total :total + :quantity * :price_cents

\set product random(1, :seventh) + 2 * :seventh
\set quantity random(1, 3)
select price_cents from business_products where id = :product \gset
select in_stock from business_stock where product = :product;
update business_stock set in_stock = in_stock - :quantity where product = :product;
insert into business_order_lines (order_id, line, product, quantity, price_cents)
    values (:order_id, 3, :product, :quantity, :price_cents);
\set total :total + :quantity * :price_cents

\set product random(1, :seventh) + 3 * :seventh
\set quantity random(1, 3)
select price_cents from business_products where id = :product \gset
select in_stock from business_stock where product = :product;
update business_stock set in_stock = in_stock - :quantity where product = :product;
insert into business_order_lines (order_id, line, product, quantity, price_cents)
    values (:order_id, 4, :product, :quantity, :price_cents);
\set total :total + :quantity * :price_cents

\set product random(1, :seventh) + 4 * :seventh
\set quantity random(1, 3)
select price_cents from business_products where id = :product \gset
select in_stock from business_stock where product = :product;
update business_stock set in_stock = in_stock - :quantity where product = :product;
insert into business_order_lines (order_id, line, product, quantity, price_cents)
    values (:order_id, 5, :product, :quantity, :price_cents);
\set total :total + :quantity * :price_cents

\set product random(1, :seventh) + 5 * :seventh
\set quantity random(1, 3)
select price_cents from business_products where id = :product \gset
select in_stock from business_stock where product = :product;
update business_stock set in_stock = in_stock - :quantity where product = :product;
insert into business_order_lines (order_id, line, product, quantity, price_cents)
    values (:order_id, 6, :product, :quantity, :price_cents);
\set total :total + :quantity * :price_cents

\if :items = 7
\set product random(1, :seventh) + 6 * :seventh
\set quantity random(1, 3)
select price_cents from business_products where id = :product \gset
select in_stock from business_stock where product = :product;
update business_stock set in_stock = in_stock - :quantity where product = :product;
insert into business_order_lines (order_id, line, product, quantity, price_cents)
    values (:order_id, 7, :product, :quantity, :price_cents);
\set total :total + :quantity * :price_cents
\endif

update business_orders set state = 'placed', total_cents = :total where id = :order_id;
update business_customers set spent_cents = spent_cents + :total, orders = orders + 1
    where id = :customer;

commit;
