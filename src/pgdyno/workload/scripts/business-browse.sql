-- A page of the shop: a list of products, and one of them with its stock.
\set first random(1, 10000 * :scale - 19)
\set product random(1, 10000 * :scale)
select id, name, price_cents from business_products where id between :first and :first + 19;
select p.name, p.price_cents, s.in_stock
    from business_products p join business_stock s on s.product = p.id where p.id = :product;
