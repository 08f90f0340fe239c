-- Pages have space, but the column that is updated has an index, so every index gets an entry.
create table items (id int primary key, a int, b int, c int, d int, e int, n int, note text)
    with (fillfactor = 40);
insert into items select i, i, i, i, i, i, 0, repeat('x', 60) from generate_series(1, 48000) as i;
create index on items (a);
create index on items (b);
create index on items (c);
create index on items (d);
create index on items (e);
create index on items (n);
alter table items set (autovacuum_enabled = off);
