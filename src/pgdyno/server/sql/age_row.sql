-- A row whose lock keeps multixacts from being frozen.
create table if not exists public.pgdyno_age as select 1 as locked
