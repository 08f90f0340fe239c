-- The tables as pgbench makes them, down to the order of the columns.
drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers;

create table pgbench_history
    (tid int, bid int, aid {aid}, delta int, mtime timestamp, filler char(22));
create table pgbench_tellers
    (tid int not null, bid int, tbalance int, filler char(84)) with (fillfactor = 100);
create table pgbench_accounts
    (aid {aid} not null, bid int, abalance int, filler char(84)) with (fillfactor = 100);
create table pgbench_branches
    (bid int not null, bbalance int, filler char(88)) with (fillfactor = 100);
