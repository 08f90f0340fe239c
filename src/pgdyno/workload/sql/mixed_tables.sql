create sequence {schema}.test_table_id;

create table {schema}.test_table (
    id bigint not null default nextval({ids}),
    c1 text,
    c2 text,
    c3 text,
    c4 text,
    c5 text
);

create unique index by_id on {schema}.test_table (id);
create index by_c1 on {schema}.test_table (c1);
create index by_c2 on {schema}.test_table (c2);
create index by_c3 on {schema}.test_table (c3);
