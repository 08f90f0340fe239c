-- One primary key per line, in pgbench's order.
alter table {pgbench_branches} add primary key (bid) {index_tablespace};
alter table {pgbench_tellers} add primary key (tid) {index_tablespace};
alter table {pgbench_accounts} add primary key (aid) {index_tablespace};
