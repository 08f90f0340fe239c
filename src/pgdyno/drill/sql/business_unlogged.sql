-- True if a table of business is unlogged or missing.
select coalesce(bool_or(relpersistence <> 'p'), true) or count(*) < 8
  from pg_class
 where oid in (
     to_regclass('business_customers'), to_regclass('business_products'),
     to_regclass('business_stock'), to_regclass('business_orders'),
     to_regclass('business_order_lines'), to_regclass('business_payments'),
     to_regclass('business_events'), to_regclass('business_positions')
 );
