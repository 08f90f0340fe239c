-- A page of the product catalogue: a list and one product.
\set first random(1, 19980)
\set product random_zipfian(1, 20000, 1.1)
select id, name, price_cents from products where id between :first and :first + 19;
select name, price_cents, stock from products where id = :product;
