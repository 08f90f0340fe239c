-- A small transaction on any row of those that the batch updates.
\set id random(1, 500)
begin;
update counters set n = n + 1 where id = :id;
end;
