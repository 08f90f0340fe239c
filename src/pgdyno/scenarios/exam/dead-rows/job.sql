-- Replace a job by a new one, and count those that failed often, for which there is no index.
\set id 1 + :client_id % 2 * 200 + random(0, 199)
begin;
delete from jobs where id = :id;
insert into jobs (id, state) values (:id, 0);
select count(*) from jobs where tries > 100;
end;
