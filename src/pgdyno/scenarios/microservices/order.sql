-- An order with its lines and the update of the stock, in one transaction.
\set customer random(1, 50000)
\set lines random(1, 5)
\set product random_zipfian(1, 20000, 1.1)
\set order random_uuid()
begin;
select name, price_cents, stock from products where id = :product;
insert into orders (id, customer) values (:order, :customer);
insert into order_lines (order_id, line, product, quantity) values \rows :lines :order, :row, random(1, 20000), random(1, 3)
update products set stock = stock - 1 where id = :product;
commit;
