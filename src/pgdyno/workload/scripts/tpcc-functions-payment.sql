\set given case when :by_name then :namesake else null end
select tpcc_payment(:warehouse, :district, :theirs, :their_district, :customer, :given, :amount);
