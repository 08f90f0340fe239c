-- A clerk's screen that opens a transaction, reads, waits for the clerk, and closes it: idle in
-- transaction for as long as the group's hold_open says.
\set customer random(1, 50000)
begin;
select count(*) from orders where customer = :customer;
commit;
