-- The tables of entity-resolution: records come in, are observed as entities of their own, and are
-- resolved into the entity that shares their features. Names in braces are partitionings.
create sequence {schema}.er_record_ids cache 50;
create sequence {schema}.er_entity_ids cache 50;

create table {schema}.er_sources (
    source int primary key,
    name text not null
);

create table {schema}.er_records (
    record_id bigint not null default nextval({record_ids}),
    source int not null,
    hash bigint not null,
    loaded timestamptz not null,
    document text not null
) {by_record};

create table {schema}.er_observed (
    record_id bigint not null,
    source int not null,
    source_key bigint not null,
    first_seen timestamptz not null default now(),
    features bigint[]
);

create table {schema}.er_entities (
    entity_id bigint not null default nextval({entity_ids}),
    records int not null default 0,
    version int not null default 0,
    summary text not null
) {by_entity};

create table {schema}.er_entity_records (
    record_id bigint not null,
    entity_id bigint not null,
    reason int not null
);

create table {schema}.er_features (
    feature_id bigint not null,
    kind int not null,
    hash bigint not null,
    words text not null
);

create table {schema}.er_feature_stats (
    feature_id bigint not null,
    records int not null,
    redone int not null default 0
) {by_feature};

create table {schema}.er_feature_keys (
    feature_id bigint not null,
    entity_id bigint not null,
    kind int not null,
    seen int not null default 0
) {by_feature};

create table {schema}.er_relations (
    entity_id bigint not null,
    other_id bigint not null,
    level int not null,
    version int not null default 0
);

create table {schema}.er_queue (
    id bigint generated always as identity,
    feature_id bigint not null,
    queued timestamptz not null default now()
);

-- Written only with the variable extras.
create table {schema}.er_record_hashes (
    hash bigint not null,
    record_id bigint not null
);

create table {schema}.er_feature_hashes (
    hash bigint not null,
    feature_id bigint not null
);
