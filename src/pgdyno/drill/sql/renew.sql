-- Before another load on the same database: fills the unlogged table and removes earlier witnesses.
truncate public.pgdyno_witness;
truncate pgdyno_drill.unlogged;
insert into pgdyno_drill.unlogged select i, md5(i::text) from generate_series(1, 200) i;
update pgdyno_drill.cold_dirty set number = number # 1 where id % 2 = 0;
do $$ begin raise log 'pgdyno: witnesses are ready'; end $$;
