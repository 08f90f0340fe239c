-- Payment of TPC-C: of a customer of another warehouse in 15 of 100. In 60 of 100 the customer is
-- the middle one of those with a last name, which is that of one of the first thousand.
\if :keying
\sleep 3 s
\endif
\set warehouse 1 + :client_id % :scale
\set district random(1, 10)
\set is_remote :scale > 1 and random(1, 100) <= 15
\set theirs case when :is_remote then 1 + (:warehouse + random(0, :scale - 2)) % :scale \
  else :warehouse end
\set their_district case when :is_remote then random(1, 10) else :district end
\set by_name random(1, 100) <= 60
\set customer 1 + ((random(0, 1023) | random(1, 3000)) + 259) % 3000
\set namesake 1 + ((random(0, 255) | random(0, 999)) + 223) % 1000
\set amount random(100, 500000) / 100.0

begin;
update tpcc_warehouses set w_ytd = w_ytd + :amount where w_id = :warehouse
 returning array[w_name] as w_names, w_street_1, w_street_2, w_city, w_state, w_zip \gset
update tpcc_districts set d_ytd = d_ytd + :amount where d_w_id = :warehouse and d_id = :district
 returning array[d_name] as d_names, d_street_1, d_street_2, d_city, d_state, d_zip \gset
\if :by_name
select (array_agg(c_id order by c_first))[(count(*) + 1) / 2] as customer from tpcc_customers
 where c_w_id = :theirs and c_d_id = :their_district and c_last = (
       select c_last from tpcc_customers
        where c_w_id = :theirs and c_d_id = :their_district and c_id = :namesake) \gset
\endif
update tpcc_customers
   set c_balance = c_balance - :amount, c_ytd_payment = c_ytd_payment + :amount,
       c_payment_cnt = c_payment_cnt + 1,
       c_data = case when c_credit = 'BC'
                     then left(concat_ws(' ', c_id, c_d_id, c_w_id, :district::int, :warehouse::int,
                                         :amount::numeric, c_data), 500)
                     else c_data end
 where c_w_id = :theirs and c_d_id = :their_district and c_id = :customer
 returning c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone,
   c_since, c_credit, c_credit_lim, c_discount, c_balance;
insert into tpcc_history (h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_date, h_amount, h_data)
values (:theirs, :their_district, :customer, :warehouse, :district, now(), :amount,
        concat_ws('    ', (:w_names::text[])[1], (:d_names::text[])[1]));
commit;
\if :keying
\set think int(least(120000, -12000.0 * ln(random(1, 1000000) / 1000000.0)))
\sleep :think ms
\endif
