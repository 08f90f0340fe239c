-- The table of the workload ingest, filled by the load.
create table {schema}.ingest_rows (
    id bigint generated always as identity primary key,
    source int not null,
    code bigint not null,
    loaded timestamptz not null,
    name text not null,
    document text not null
);

create index ingest_rows_code on {schema}.ingest_rows (code);
