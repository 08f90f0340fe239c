-- Full pages: the new row goes to another page, and every index gets an entry.
create table items (id int primary key, a int, b int, c int, d int, e int, n int, note text);
insert into items select i, i, i, i, i, i, 0, repeat('x', 60) from generate_series(1, 48000) as i;
create index on items (a);
create index on items (b);
create index on items (c);
create index on items (d);
create index on items (e);
alter table items set (autovacuum_enabled = off);
