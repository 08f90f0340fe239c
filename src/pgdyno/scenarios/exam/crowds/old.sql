-- A transaction that stays open, so that subtransactions remain of interest.
begin isolation level repeatable read;
select 1 from counters limit 1;
\sleep 100 s
end;
