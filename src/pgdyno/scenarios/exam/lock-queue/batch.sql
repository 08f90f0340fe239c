-- A batch updates many rows in one transaction.
begin;
update counters set n = n + 1 from touched where touched.id = counters.id;
select pg_sleep(:hold_s);
end;
