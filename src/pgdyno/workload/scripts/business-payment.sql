-- The oldest unpaid order of a customer is paid, if there is one.
\set customer random(1, 10000 * :scale)
begin;
with paid as (
    update business_orders set state = 'paid'
     where id = (select id from business_orders where customer = :customer and state = 'placed'
                  order by id limit 1 for update skip locked)
    returning id, total_cents
)
insert into business_payments (order_id, amount_cents) select id, total_cents from paid;
commit;
