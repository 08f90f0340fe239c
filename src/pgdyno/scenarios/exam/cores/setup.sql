-- A table in which no index helps the query of the exam.
create table orders (id int primary key, customer int, total int, note text);
insert into orders select i, i % 977, i % 100, repeat('x', 40) from generate_series(1, 90000) as i;
analyze orders;
