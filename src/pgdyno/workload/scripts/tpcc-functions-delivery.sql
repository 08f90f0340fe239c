select tpcc_delivery(:warehouse, :carrier);
