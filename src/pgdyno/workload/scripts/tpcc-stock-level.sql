-- Stock-Level of TPC-C: items of the last twenty orders of a district with little stock. A client's
-- district is its own, as its warehouse is.
\if :keying
\sleep 2 s
\endif
\set warehouse 1 + :client_id % :scale
\set district 1 + :client_id / :scale % 10
\set threshold random(10, 20)

begin;
select d_next_o_id as next from tpcc_districts
 where d_w_id = :warehouse and d_id = :district \gset
select count(distinct s_i_id) as low_stock
  from tpcc_order_lines join tpcc_stock on s_w_id = ol_w_id and s_i_id = ol_i_id
 where ol_w_id = :warehouse and ol_d_id = :district and ol_o_id between :next - 20 and :next - 1
   and s_quantity < :threshold;
commit;
\if :keying
\set think int(least(50000, -5000.0 * ln(random(1, 1000000) / 1000000.0)))
\sleep :think ms
\endif
