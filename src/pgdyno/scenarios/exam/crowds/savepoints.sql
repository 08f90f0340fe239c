-- More subtransactions than a session's cache holds (64), open for a while.
begin;
do $$
begin
    for i in 1..100 loop
        begin
            update counters set n = n + 1 where id = 1 + (random() * 400)::int;
        exception when division_by_zero then null;
        end;
    end loop;
end $$;
\sleep 20 ms
end;
