-- A table of the model: updates of n are HOT where the page has room, those of k never are.
create table {table} (id bigint primary key, k bigint not null, n bigint not null, pad text);
create index on {table} (k);
insert into {table} select i, i, 0, repeat('x', 60) from generate_series(1, {rows}) i
