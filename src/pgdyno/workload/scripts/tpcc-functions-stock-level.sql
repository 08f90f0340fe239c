select tpcc_stock_level(:warehouse, :district, :threshold);
