\if :fails
\expect P0002
select tpcc_new_order(:warehouse, :district, :customer, :items, :suppliers, :quantities, true);
\else
select tpcc_new_order(:warehouse, :district, :customer, :items, :suppliers, :quantities, false);
\endif
