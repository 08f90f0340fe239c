-- Rows of TPC-C's tables for which conditions 1 to 4 of clause 3.3.2 do not hold: the payments of a
-- warehouse are those of its districts; the next number of a district follows its highest order and
-- new order; its new orders have no gap; its orders have as many lines as they say. And the orders
-- since the tables were made.
with districts as (
    select d_w_id, d_ytd, d_next_o_id, highest, due, lines, first, last, new.count
      from {schema}.tpcc_districts
     cross join lateral (select max(o_id) as highest, sum(o_ol_cnt) as due
                           from {schema}.tpcc_orders
                          where o_w_id = d_w_id and o_d_id = d_id) as ordered
     cross join lateral (select count(*) as lines from {schema}.tpcc_order_lines
                          where ol_w_id = d_w_id and ol_d_id = d_id) as written
     cross join lateral (select min(no_o_id) as first, max(no_o_id) as last, count(*) as count
                           from {schema}.tpcc_new_orders
                          where no_w_id = d_w_id and no_d_id = d_id) as new
)
select (select count(*) from {schema}.tpcc_warehouses
         where w_ytd <> (select sum(d_ytd) from districts where d_w_id = w_id)) as payments,
       count(*) filter (where d_next_o_id - 1 <> highest or d_next_o_id - 1 <> last) as numbers,
       count(*) filter (where last - first + 1 <> count) as gaps,
       count(*) filter (where due <> lines) as lines,
       sum(d_next_o_id - 3001) as orders
  from districts
