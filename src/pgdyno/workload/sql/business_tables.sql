-- An order schema. What the transactions of business add can be checked by sums: see
-- business_sums.sql of the drills.
create table {schema}.business_customers (
    id int primary key,
    name text not null,
    orders int not null default 0,
    spent_cents bigint not null default 0
) with (fillfactor = 90);

create table {schema}.business_products (
    id int primary key,
    name text not null,
    price_cents int not null
);

create table {schema}.business_stock (
    product int primary key references {schema}.business_products,
    delivered bigint not null,
    in_stock bigint not null
) with (fillfactor = 90);

create table {schema}.business_orders (
    id bigint generated always as identity primary key,
    customer int not null references {schema}.business_customers,
    placed timestamptz not null default now(),
    state text not null default 'new',
    total_cents bigint not null default 0
) with (fillfactor = 90);

create index business_orders_customer on {schema}.business_orders (customer);

create table {schema}.business_order_lines (
    order_id bigint not null references {schema}.business_orders,
    line int not null,
    product int not null references {schema}.business_products,
    quantity int not null,
    price_cents int not null,
    primary key (order_id, line)
);

create table {schema}.business_payments (
    order_id bigint primary key references {schema}.business_orders,
    amount_cents bigint not null,
    taken timestamptz not null default now()
);

create table {schema}.business_events (
    partition int not null,
    position bigint not null,
    kind text not null,
    product int not null,
    received timestamptz not null default now(),
    primary key (partition, position)
);

create table {schema}.business_positions (
    partition int primary key,
    position bigint not null
) with (fillfactor = 50);
