-- Rows that are there from the start, and the keys.
insert into er_sources (source, name) select n, 'source ' || n from generate_series(1, 20) n;

alter table er_records add primary key (record_id);
alter table er_observed add primary key (record_id);
create index er_observed_key on er_observed (source_key, source);
alter table er_entities add primary key (entity_id);
alter table er_entity_records add primary key (record_id);
create index er_entity_records_entity on er_entity_records (entity_id);
alter table er_features add primary key (feature_id);
alter table er_feature_stats add primary key (feature_id);
alter table er_feature_keys add primary key (feature_id, entity_id);
create index er_feature_keys_entity on er_feature_keys (entity_id, kind);
alter table er_relations add primary key (entity_id, other_id);
create index er_relations_other on er_relations (other_id);
alter table er_queue add primary key (id);
create index er_record_hashes_hash on er_record_hashes (hash);
create index er_feature_hashes_hash on er_feature_hashes (hash);
