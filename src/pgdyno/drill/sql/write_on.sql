-- New rows with new sequence numbers in the witness table and in another table; half of the latter
-- are updated, some of the former deleted.
delete from public.pgdyno_witness where load = -1;
truncate pgdyno_drill.afterwards;
insert into public.pgdyno_witness (load, grp, client, txn)
    select -1, 0, 0, i from generate_series(1, 500) i;
insert into pgdyno_drill.afterwards (filler) select md5(i::text) from generate_series(1, 500) i;
update pgdyno_drill.afterwards set filler = repeat(filler, 3) where id % 2 = 0;
delete from public.pgdyno_witness where load = -1 and txn > 400;
