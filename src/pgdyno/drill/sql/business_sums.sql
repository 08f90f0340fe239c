-- Sums of the tables of business that are 0 as long as no transaction is lost in part: stock that left
-- against quantities ordered, totals of orders against their lines, what customers spent against
-- their orders, payments against paid orders, positions of the stream against its events.
select (select coalesce(sum(delivered - in_stock), 0) from <schema>.business_stock)
         - (select coalesce(sum(quantity), 0) from <schema>.business_order_lines) as stock,
       (select coalesce(sum(total_cents), 0) from <schema>.business_orders)
         - (select coalesce(sum(quantity * price_cents), 0) from <schema>.business_order_lines) as lines,
       (select coalesce(sum(spent_cents), 0) from <schema>.business_customers)
         - (select coalesce(sum(total_cents), 0) from <schema>.business_orders) as customers,
       (select coalesce(sum(amount_cents), 0) from <schema>.business_payments)
         - (select coalesce(sum(total_cents), 0) from <schema>.business_orders where state = 'paid')
           as payments,
       (select coalesce(sum(position), 0) from <schema>.business_positions)
         - (select count(*) from <schema>.business_events) as events;
