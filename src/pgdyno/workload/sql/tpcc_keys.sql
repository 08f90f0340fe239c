-- Keys of the tables of TPC-C, and the two indexes that its queries by name and by customer need.
alter table {schema}.tpcc_warehouses add primary key (w_id);
alter table {schema}.tpcc_districts add primary key (d_w_id, d_id);
alter table {schema}.tpcc_customers add primary key (c_w_id, c_d_id, c_id);
alter table {schema}.tpcc_new_orders add primary key (no_w_id, no_d_id, no_o_id);
alter table {schema}.tpcc_orders add primary key (o_w_id, o_d_id, o_id);
alter table {schema}.tpcc_order_lines add primary key (ol_w_id, ol_d_id, ol_o_id, ol_number);
alter table {schema}.tpcc_items add primary key (i_id);
alter table {schema}.tpcc_stock add primary key (s_w_id, s_i_id);
create index tpcc_customers_name on {schema}.tpcc_customers (c_w_id, c_d_id, c_last, c_first);
create index tpcc_orders_customer on {schema}.tpcc_orders (o_w_id, o_d_id, o_c_id, o_id);
