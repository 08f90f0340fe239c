-- Delivery of TPC-C: the oldest new order of each of the ten districts, in one transaction. A
-- district without one is passed over.
\if :keying
\sleep 2 s
\endif
\set warehouse 1 + :client_id % :scale
\set carrier random(1, 10)

begin;
\for district 10
with taken as (
    delete from tpcc_new_orders where no_w_id = :warehouse and no_d_id = :district and no_o_id = (
        select no_o_id from tpcc_new_orders where no_w_id = :warehouse and no_d_id = :district
         order by no_o_id limit 1 for update)
    returning no_o_id)
select coalesce(max(no_o_id), 0) as order_id from taken \gset
\if :order_id > 0
update tpcc_orders set o_carrier_id = :carrier
 where o_w_id = :warehouse and o_d_id = :district and o_id = :order_id
 returning o_c_id as customer \gset
with delivered as (
    update tpcc_order_lines set ol_delivery_d = now()
     where ol_w_id = :warehouse and ol_d_id = :district and ol_o_id = :order_id
    returning ol_amount)
select sum(ol_amount) as amount from delivered \gset
update tpcc_customers set c_balance = c_balance + :amount, c_delivery_cnt = c_delivery_cnt + 1
 where c_w_id = :warehouse and c_d_id = :district and c_id = :customer;
\endif
\endfor
commit;
\if :keying
\set think int(least(50000, -5000.0 * ln(random(1, 1000000) / 1000000.0)))
\sleep :think ms
\endif
