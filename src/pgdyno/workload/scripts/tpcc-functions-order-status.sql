\set given case when :by_name then :namesake else null end
select tpcc_order_status(:warehouse, :district, :customer, :given);
