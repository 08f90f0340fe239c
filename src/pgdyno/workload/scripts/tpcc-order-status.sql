-- Order-Status of TPC-C: a customer, the last order and its lines. In 60 of 100 the customer is the
-- middle one of those with a last name, which is that of one of the first thousand.
\if :keying
\sleep 2 s
\endif
\set warehouse 1 + :client_id % :scale
\set district random(1, 10)
\set by_name random(1, 100) <= 60
\set customer 1 + ((random(0, 1023) | random(1, 3000)) + 259) % 3000
\set namesake 1 + ((random(0, 255) | random(0, 999)) + 223) % 1000

begin;
\if :by_name
select (array_agg(c_id order by c_first))[(count(*) + 1) / 2] as customer from tpcc_customers
 where c_w_id = :warehouse and c_d_id = :district and c_last = (
       select c_last from tpcc_customers
        where c_w_id = :warehouse and c_d_id = :district and c_id = :namesake) \gset
\endif
select c_balance, c_first, c_middle, c_last from tpcc_customers
 where c_w_id = :warehouse and c_d_id = :district and c_id = :customer;
select o_id as order_id, o_entry_d, o_carrier_id from tpcc_orders
 where o_w_id = :warehouse and o_d_id = :district and o_c_id = :customer
 order by o_id desc limit 1 \gset
select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d from tpcc_order_lines
 where ol_w_id = :warehouse and ol_d_id = :district and ol_o_id = :order_id;
commit;
\if :keying
\set think int(least(100000, -10000.0 * ln(random(1, 1000000) / 1000000.0)))
\sleep :think ms
\endif
