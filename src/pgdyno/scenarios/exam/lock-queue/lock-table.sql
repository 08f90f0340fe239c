-- The application locks the whole table against other writers.
begin;
lock table journal in exclusive mode;
insert into journal (id) values (:client_id);
select pg_sleep(:hold_s);
end;
