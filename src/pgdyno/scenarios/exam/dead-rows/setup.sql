-- A small table of jobs: each transaction leaves a dead row.
create table jobs (id int primary key, state int not null, tries int not null default 0);
insert into jobs select i, i % 4 from generate_series(1, 400) as i;
