-- Rows that are there from the start, and the keys.
insert into {schema}.er_sources (source, name) select n, 'source ' || n from generate_series(1, 20) n;

alter table {schema}.er_records add primary key (record_id);
alter table {schema}.er_observed add primary key (record_id);
create index er_observed_key on {schema}.er_observed (source_key, source);
alter table {schema}.er_entities add primary key (entity_id);
alter table {schema}.er_entity_records add primary key (record_id);
create index er_entity_records_entity on {schema}.er_entity_records (entity_id);
alter table {schema}.er_features add primary key (feature_id);
alter table {schema}.er_feature_stats add primary key (feature_id);
alter table {schema}.er_feature_keys add primary key (feature_id, entity_id);
create index er_feature_keys_entity on {schema}.er_feature_keys (entity_id, kind);
alter table {schema}.er_relations add primary key (entity_id, other_id);
create index er_relations_other on {schema}.er_relations (other_id);
alter table {schema}.er_queue add primary key (id);
create index er_record_hashes_hash on {schema}.er_record_hashes (hash);
create index er_feature_hashes_hash on {schema}.er_feature_hashes (hash);
