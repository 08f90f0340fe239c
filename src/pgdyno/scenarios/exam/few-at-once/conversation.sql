-- A transaction of many small statements, each sent after the answer to the last.
\set aid random(1, 100000 * :scale)
\set delta random(-5000, 5000)
begin;
update pgbench_accounts set abalance = abalance + :delta where aid = :aid;
select abalance from pgbench_accounts where aid = :aid;
insert into pgbench_history (tid, bid, aid, delta, mtime)
    values (1, 1, :aid, :delta, current_timestamp);
end;
