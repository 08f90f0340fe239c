-- All transactions update the same row, and hold it while they work.
begin;
update counters set n = n + 1 where id = 1;
select pg_sleep(:hold_s);
end;
