-- New-Order of TPC-C: an order of 5 to 15 items. One order in a hundred names an item that does not
-- exist, and is rolled back. Customers and items are drawn as clause 2.1.6 says. A client's
-- warehouse is its own, as a terminal's is. The items of an order are taken in ascending order, so
-- that two orders never wait for each other. A text is kept as an array of one, which is a literal
-- also in the simple protocol.
\if :keying
\sleep 18 s
\endif
\set warehouse 1 + :client_id % :scale
\set district random(1, 10)
\set customer 1 + ((random(0, 1023) | random(1, 3000)) + 259) % 3000
\set count random(5, 15)
\set fails random(1, 100) = 1
\set lines :count - case when :fails then 1 else 0 end
\array items :lines 1 + ((random(0, 8191) | random(1, 100000)) + 7911) % 100000
\array suppliers :lines case when :scale > 1 and random(1, 100) = 1 \
  then 1 + (:warehouse + random(0, :scale - 2)) % :scale else :warehouse end
\array quantities :lines random(1, 10)

begin;
select c_discount, c_last, c_credit, w_tax,
       (select array_agg(item order by item) from unnest(:items::int[]) as item) as items
  from tpcc_warehouses join tpcc_customers on c_w_id = w_id
 where w_id = :warehouse and c_d_id = :district and c_id = :customer \gset
update tpcc_districts set d_next_o_id = d_next_o_id + 1
 where d_w_id = :warehouse and d_id = :district returning d_next_o_id - 1 as order_id, d_tax \gset
insert into tpcc_orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
values (:warehouse, :district, :order_id, :customer, now(), :count,
        (:warehouse = all(:suppliers::int[]))::int);
insert into tpcc_new_orders (no_w_id, no_d_id, no_o_id) values (:warehouse, :district, :order_id);

\for line :lines
\set item :items[:line]
\set supplier :suppliers[:line]
\set quantity :quantities[:line]
\set is_remote case when :supplier = :warehouse then 0 else 1 end
select i_price as price, i_name, i_data from tpcc_items where i_id = :item \gset
select s_quantity as stock, s_data,
       array[(array[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
                    s_dist_08, s_dist_09, s_dist_10])[:district]] as dists
  from tpcc_stock where s_w_id = :supplier and s_i_id = :item for update \gset
\set stock :stock - :quantity + case when :stock >= :quantity + 10 then 0 else 91 end
update tpcc_stock set s_quantity = :stock, s_ytd = s_ytd + :quantity, s_order_cnt = s_order_cnt + 1,
       s_remote_cnt = s_remote_cnt + :is_remote where s_w_id = :supplier and s_i_id = :item;
insert into tpcc_order_lines (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id,
                              ol_quantity, ol_amount, ol_dist_info)
values (:warehouse, :district, :order_id, :line, :item, :supplier, :quantity,
        :quantity::int * :price::numeric, (:dists::text[])[1]);
\endfor

\if :fails
select i_price, i_name, i_data from tpcc_items where i_id = 0;
rollback;
begin;
\endif
commit;
\if :keying
\set think int(least(120000, -12000.0 * ln(random(1, 1000000) / 1000000.0)))
\sleep :think ms
\endif
