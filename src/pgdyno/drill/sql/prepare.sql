-- Objects that a crash must not change, and the table of the witnesses.
-- cold_written is on disk before the load begins; cold_dirty is written by a checkpoint during it.
drop table if exists public.pgdyno_witness;
drop schema if exists pgdyno_drill cascade;
create schema pgdyno_drill;

create sequence pgdyno_drill.numbers;
create table public.pgdyno_witness (
    load bigint,
    grp integer,
    client integer,
    txn bigint,
    number bigint not null default nextval('pgdyno_drill.numbers'),
    -- Of the server on which it was written, which after a failover is another.
    port integer not null default current_setting('port')::integer,
    primary key (load, grp, client, txn)
);
-- The clients may be of another role, which thus has no triggers on what a superuser changes.
grant usage on sequence pgdyno_drill.numbers to public;
grant insert on public.pgdyno_witness to public;

create table pgdyno_drill.cold_written (id integer primary key, number integer, filler text);
insert into pgdyno_drill.cold_written
    select i, hashint4(i), repeat(md5(i::text), 2) from generate_series(1, 6000) i;
create index on pgdyno_drill.cold_written (number);
create table pgdyno_drill.cold_dirty (like pgdyno_drill.cold_written including all);
insert into pgdyno_drill.cold_dirty select * from pgdyno_drill.cold_written;
-- Values too long for a page: a TOAST table with rows.
alter table pgdyno_drill.cold_written alter filler set storage external;
insert into pgdyno_drill.cold_written
    select -i, i, repeat(md5(i::text), 250) from generate_series(1, 50) i;

update pgdyno_drill.cold_written set number = number # 1 where id % 2 = 0;
delete from pgdyno_drill.cold_written where id % 7 = 0;

create unlogged table pgdyno_drill.unlogged (id integer primary key, filler text);
insert into pgdyno_drill.unlogged select i, md5(i::text) from generate_series(1, 200) i;

create table pgdyno_drill.afterwards (
    id bigint generated always as identity primary key, filler text
);

checkpoint;

update pgdyno_drill.cold_dirty set number = number # 1 where id % 2 = 0;
delete from pgdyno_drill.cold_dirty where id % 7 = 0;

-- A mark in the server's log: from here on the unlogged table has rows.
do $$ begin raise log 'pgdyno: witnesses are ready'; end $$;
