-- A long report that keeps its snapshot.
begin isolation level repeatable read;
select count(*) from jobs;
\sleep 100 s
end;
