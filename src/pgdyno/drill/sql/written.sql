-- The number of rows that write_on.sql wrote, counted through the table and through its index.
select (select count(*) from public.pgdyno_witness where load + 0 = -1),
    (select count(*) from public.pgdyno_witness where load = -1),
    (select count(*) from pgdyno_drill.afterwards),
    (select count(*) from pgdyno_drill.afterwards where id > 0);
