-- An order schema. What the transactions of business add can be checked by sums: see
-- business_sums.sql of the drills.
create table business_customers (
    id int primary key,
    name text not null,
    orders int not null default 0,
    spent_cents bigint not null default 0
) with (fillfactor = 90);

create table business_products (
    id int primary key,
    name text not null,
    price_cents int not null
);

create table business_stock (
    product int primary key references business_products,
    delivered bigint not null,
    in_stock bigint not null
) with (fillfactor = 90);

create table business_orders (
    id bigint generated always as identity primary key,
    customer int not null references business_customers,
    placed timestamptz not null default now(),
    state text not null default 'new',
    total_cents bigint not null default 0
) with (fillfactor = 90);

create index business_orders_customer on business_orders (customer);

create table business_order_lines (
    order_id bigint not null references business_orders,
    line int not null,
    product int not null references business_products,
    quantity int not null,
    price_cents int not null,
    primary key (order_id, line)
);

create table business_payments (
    order_id bigint primary key references business_orders,
    amount_cents bigint not null,
    taken timestamptz not null default now()
);

create table business_events (
    partition int not null,
    position bigint not null,
    kind text not null,
    product int not null,
    received timestamptz not null default now(),
    primary key (partition, position)
);

create table business_positions (
    partition int primary key,
    position bigint not null
) with (fillfactor = 50);
