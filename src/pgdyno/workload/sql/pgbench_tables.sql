-- The tables as pgbench makes them, down to the order of the columns.
create {unlogged} table {pgbench_history}
    (tid int, bid int, aid {aid}, delta int, mtime timestamp, filler char(22)) {tablespace};
create {unlogged} table {pgbench_tellers}
    (tid int not null, bid int, tbalance int, filler char(84))
    with (fillfactor = {fillfactor}) {tablespace};
create {unlogged} table {pgbench_accounts}
    (aid {aid} not null, bid int, abalance int, filler char(84))
    {accounts_kind} {tablespace};
create {unlogged} table {pgbench_branches}
    (bid int not null, bbalance int, filler char(88))
    with (fillfactor = {fillfactor}) {tablespace};
