-- A screen of the back office that opens a transaction, reads, waits for the user, and commits: it is
-- idle in transaction for the time of the group's hold_open.
\set customer random(1, 50000)
begin;
select count(*) from orders where customer = :customer;
commit;
