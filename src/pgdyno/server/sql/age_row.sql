-- A row whose lock keeps multixacts from being frozen.
drop table if exists public.pgdyno_age;
create table public.pgdyno_age as select 1 as locked
