-- A row of 32 kB.
insert into journal (content) values (repeat(:client_id::text, 32000));
