-- Rows of 32 kB that are written again and again.
create table pages (id int primary key, n int, content text);
alter table pages alter column content set storage external;
alter table pages set (toast.autovacuum_vacuum_threshold = 100,
                       toast.autovacuum_vacuum_scale_factor = 0);
insert into pages select i, 0, '' from generate_series(1, 8) as i;
