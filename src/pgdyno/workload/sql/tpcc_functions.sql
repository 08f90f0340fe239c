-- The five transactions of TPC-C as functions, each of which is executed by one statement. They do
-- the same as the scripts do by one statement after the other.
create function {schema}.tpcc_new_order(
    warehouse int, district int, customer int, items int[], suppliers int[], quantities int[],
    fails boolean
) returns int language plpgsql as $$
declare
    order_id int;
    price numeric;
    stock {schema}.tpcc_stock;
begin
    perform c_discount, c_last, c_credit, w_tax
       from {schema}.tpcc_warehouses join {schema}.tpcc_customers on c_w_id = w_id
      where w_id = warehouse and c_d_id = district and c_id = customer;
    update {schema}.tpcc_districts set d_next_o_id = d_next_o_id + 1
     where d_w_id = warehouse and d_id = district returning d_next_o_id - 1 into order_id;
    insert into {schema}.tpcc_orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    values (warehouse, district, order_id, customer, now(), cardinality(items),
            (warehouse = all(suppliers))::int);
    insert into {schema}.tpcc_new_orders (no_w_id, no_d_id, no_o_id)
    values (warehouse, district, order_id);
    items := array(select item from unnest(items) as item order by item);
    for line in 1 .. cardinality(items) loop
        select i_price into strict price from {schema}.tpcc_items where i_id = items[line];
        select * into stock from {schema}.tpcc_stock
         where s_w_id = suppliers[line] and s_i_id = items[line] for update;
        update {schema}.tpcc_stock
           set s_quantity = s_quantity - quantities[line]
                            + case when s_quantity >= quantities[line] + 10 then 0 else 91 end,
               s_ytd = s_ytd + quantities[line], s_order_cnt = s_order_cnt + 1,
               s_remote_cnt = s_remote_cnt + (suppliers[line] <> warehouse)::int
         where s_w_id = suppliers[line] and s_i_id = items[line];
        insert into {schema}.tpcc_order_lines (
            ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
            ol_dist_info)
        values (warehouse, district, order_id, line, items[line], suppliers[line], quantities[line],
                quantities[line] * price,
                (array[stock.s_dist_01, stock.s_dist_02, stock.s_dist_03, stock.s_dist_04,
                       stock.s_dist_05, stock.s_dist_06, stock.s_dist_07, stock.s_dist_08,
                       stock.s_dist_09, stock.s_dist_10])[district]);
    end loop;
    if fails then
        select i_price into strict price from {schema}.tpcc_items where i_id = 0;
    end if;
    return order_id;
end $$;

create function {schema}.tpcc_customer(warehouse int, district int, namesake int)
returns int language sql stable as $$
    select (array_agg(c_id order by c_first))[(count(*) + 1) / 2] from {schema}.tpcc_customers
     where c_w_id = warehouse and c_d_id = district and c_last = (
           select c_last from {schema}.tpcc_customers
            where c_w_id = warehouse and c_d_id = district and c_id = namesake)
$$;

create function {schema}.tpcc_payment(
    warehouse int, district int, theirs int, their_district int, customer int, namesake int,
    amount numeric
) returns {schema}.tpcc_customers language plpgsql as $$
declare
    warehouse_name text;
    district_name text;
    paid {schema}.tpcc_customers;
begin
    update {schema}.tpcc_warehouses set w_ytd = w_ytd + amount where w_id = warehouse
     returning w_name into warehouse_name;
    update {schema}.tpcc_districts set d_ytd = d_ytd + amount
     where d_w_id = warehouse and d_id = district returning d_name into district_name;
    if namesake is not null then
        customer := {schema}.tpcc_customer(theirs, their_district, namesake);
    end if;
    update {schema}.tpcc_customers
       set c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount,
           c_payment_cnt = c_payment_cnt + 1,
           c_data = case when c_credit = 'BC'
                         then left(concat_ws(' ', c_id, c_d_id, c_w_id, district, warehouse, amount,
                                             c_data), 500)
                         else c_data end
     where c_w_id = theirs and c_d_id = their_district and c_id = customer returning * into paid;
    insert into {schema}.tpcc_history (
        h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_date, h_amount, h_data)
    values (theirs, their_district, customer, warehouse, district, now(), amount,
            concat_ws('    ', warehouse_name, district_name));
    return paid;
end $$;

create function {schema}.tpcc_order_status(
    warehouse int, district int, customer int, namesake int
) returns setof {schema}.tpcc_order_lines language plpgsql as $$
declare
    order_id int;
begin
    if namesake is not null then
        customer := {schema}.tpcc_customer(warehouse, district, namesake);
    end if;
    perform c_balance, c_first, c_middle, c_last from {schema}.tpcc_customers
      where c_w_id = warehouse and c_d_id = district and c_id = customer;
    select o_id into order_id from {schema}.tpcc_orders
     where o_w_id = warehouse and o_d_id = district and o_c_id = customer
     order by o_id desc limit 1;
    return query select * from {schema}.tpcc_order_lines
                  where ol_w_id = warehouse and ol_d_id = district and ol_o_id = order_id;
end $$;

create function {schema}.tpcc_delivery(warehouse int, carrier int)
returns int language plpgsql as $$
declare
    order_id int;
    customer int;
    amount numeric;
    delivered int := 0;
begin
    for district in 1 .. 10 loop
        delete from {schema}.tpcc_new_orders
         where no_w_id = warehouse and no_d_id = district and no_o_id = (
               select no_o_id from {schema}.tpcc_new_orders
                where no_w_id = warehouse and no_d_id = district order by no_o_id limit 1 for update)
        returning no_o_id into order_id;
        continue when order_id is null;
        update {schema}.tpcc_orders set o_carrier_id = carrier
         where o_w_id = warehouse and o_d_id = district and o_id = order_id
        returning o_c_id into customer;
        with lines as (
            update {schema}.tpcc_order_lines set ol_delivery_d = now()
             where ol_w_id = warehouse and ol_d_id = district and ol_o_id = order_id
            returning ol_amount)
        select sum(ol_amount) into amount from lines;
        update {schema}.tpcc_customers
           set c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
         where c_w_id = warehouse and c_d_id = district and c_id = customer;
        delivered := delivered + 1;
    end loop;
    return delivered;
end $$;

create function {schema}.tpcc_stock_level(warehouse int, district int, threshold int)
returns bigint language sql stable as $$
    select count(distinct s_i_id)
      from {schema}.tpcc_districts
      join {schema}.tpcc_order_lines on ol_w_id = d_w_id and ol_d_id = d_id
       and ol_o_id between d_next_o_id - 20 and d_next_o_id - 1
      join {schema}.tpcc_stock on s_w_id = ol_w_id and s_i_id = ol_i_id
     where d_w_id = warehouse and d_id = district and s_quantity < threshold
$$
