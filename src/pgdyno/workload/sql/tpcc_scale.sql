-- The number of warehouses.
select count(*) from {schema}.tpcc_warehouses
