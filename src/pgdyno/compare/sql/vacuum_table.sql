-- A table with one index. The checkpoint comes last, so that the vacuum writes each page's image anew,
-- and no scan has left hint bits for the deleted rows: with data checksums, setting them writes the
-- image of the whole page before it is pruned.
drop table if exists public.pgdyno_vacuum;
create table public.pgdyno_vacuum (id integer, filler character(44)) with (autovacuum_enabled = off);
insert into public.pgdyno_vacuum select n, '' from generate_series(1, %(rows)s) as n;
alter table public.pgdyno_vacuum add primary key (id);
delete from public.pgdyno_vacuum where id %% 2 = 0;
checkpoint;
