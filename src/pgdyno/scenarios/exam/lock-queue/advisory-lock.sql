-- The application makes its transactions wait for each other.
begin;
select pg_advisory_xact_lock(1);
update counters set n = n + 1 where id = 1 + :client_id;
select pg_sleep(:hold_s);
end;
