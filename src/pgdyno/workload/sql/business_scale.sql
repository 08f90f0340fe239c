-- The scale of the tables of business, by their products.
select coalesce(max(id), 0) / 10000 from {schema}.business_products
