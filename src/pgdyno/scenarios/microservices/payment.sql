-- The payment service connects for each payment, like an application without a pool.
\set customer random(1, 50000)
\set amount random(100, 50000)
insert into payments (customer, amount_cents) values (:customer, :amount);
