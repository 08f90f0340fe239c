-- One request of the web application: a TPC-B transaction that stays open during the application's
-- own work. The connection is taken from the pool when the request begins and returned when it ends.
-- \sleep stands for the application's work (reading results, business rules, rendering).
\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
begin;
select abalance from pgbench_accounts where aid = :aid;
\sleep 1 ms
update pgbench_accounts set abalance = abalance + :delta where aid = :aid;
insert into pgbench_history (tid, bid, aid, delta, mtime)
    values (:tid, :bid, :aid, :delta, current_timestamp);
update pgbench_tellers set tbalance = tbalance + :delta where tid = :tid;
update pgbench_branches set bbalance = bbalance + :delta where bid = :bid;
end;
