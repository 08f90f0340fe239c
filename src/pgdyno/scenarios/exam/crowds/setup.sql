-- Counters that transactions with many savepoints update and others read.
create table counters (id int primary key, n bigint not null default 0) with (fillfactor = 50);
insert into counters select generate_series(1, 401);
