-- A journal that only grows.
create table journal (id bigint generated always as identity, content text);
alter table journal alter column content set storage external;
