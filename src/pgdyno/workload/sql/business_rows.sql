-- Customers and products by scale; orders are made by the load.
insert into {schema}.business_customers (id, name)
    select n, 'customer ' || n from generate_series(1, 10000 * {scale}) n;
insert into {schema}.business_products (id, name, price_cents)
    select n, 'product ' || n, 100 + n % 900 from generate_series(1, 10000 * {scale}) n;
insert into {schema}.business_stock (product, delivered, in_stock)
    select n, 1000000000, 1000000000 from generate_series(1, 10000 * {scale}) n;
insert into {schema}.business_positions (partition, position) select n, 0 from generate_series(0, 7) n;
