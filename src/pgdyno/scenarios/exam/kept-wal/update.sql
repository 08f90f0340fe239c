-- One of the rows of a small table is written anew, so that only the WAL grows.
update pages set content = repeat((n % 10)::text, 32000), n = n + 1 where id = 1 + :client_id;
