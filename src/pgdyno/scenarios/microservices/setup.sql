-- The application's tables: small enough to be created within a second, large enough to avoid
-- contention on single pages.
drop table if exists products, orders, order_lines, payments, events, offsets;
create table products (
    id int primary key, name text not null, price_cents int not null, stock int not null
) with (fillfactor = 80);
insert into products
    select n, 'product ' || n, 100 + n % 900, 1000000 from generate_series(1, 20000) n;
create table orders (
    id uuid primary key, customer int not null, placed timestamptz not null default now(),
    state text not null default 'placed'
);
create index on orders (customer);
create table order_lines (
    order_id uuid not null, line int not null, product int not null, quantity int not null,
    primary key (order_id, line)
);
create table payments (
    id bigint generated always as identity primary key, customer int not null,
    amount_cents int not null, taken timestamptz not null default now()
);
create table events (
    partition int not null, kind text not null, product int not null, payload text not null,
    received timestamptz not null default now()
);
create table offsets (partition int primary key, position bigint not null);
insert into offsets select n, 0 from generate_series(0, 7) n;
