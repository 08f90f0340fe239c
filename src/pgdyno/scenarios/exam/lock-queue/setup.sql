-- Rows that transactions update, and a journal that they write to.
create table counters (id int primary key, n bigint not null default 0) with (fillfactor = 50);
insert into counters select generate_series(1, 1000);
create table journal (id bigint, at timestamptz not null default now());
create table touched (id int);
insert into touched select generate_series(1, 500);
