-- Foreign keys with the names that pgbench gives them.
alter table {pgbench_tellers} add constraint pgbench_tellers_bid_fkey foreign key (bid) references {pgbench_branches};
alter table {pgbench_accounts} add constraint pgbench_accounts_bid_fkey foreign key (bid) references {pgbench_branches};
alter table {pgbench_history} add constraint pgbench_history_bid_fkey foreign key (bid) references {pgbench_branches};
alter table {pgbench_history} add constraint pgbench_history_tid_fkey foreign key (tid) references {pgbench_tellers};
alter table {pgbench_history} add constraint pgbench_history_aid_fkey foreign key (aid) references {pgbench_accounts};
