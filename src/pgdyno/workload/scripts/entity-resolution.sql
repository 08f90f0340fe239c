-- A record on its way through entity resolution: about 85 statements, each of which commits by itself,
-- one round trip each. What of them a public description of such a load gives is as it says: lookups
-- of features by lists of ids, multi-row inserts that skip what is there, a compare-and-set update of
-- counts, an update of the observed entity at the end, redo work through a queue.
--
-- A record has 11 to 14 features, one of each kind in ascending order. The first four belong to its
-- person, the others are shared by many, as surnames and towns are. The finished record is the one
-- whose observed entity has its features: everything else of it was committed before.
\set source random(1, 20)
\set u random(0, 999999)
\set person 1 + 500 * :scale * (:u * :u / 1000000) / 1000000
\set count random(11, 14)
\set first random(0, :count - 1)
\array features :count :row * 1000000000 + case when :row = 0 then :person \
  when :row < 4 then :person * 2 + random(0, 3) / 3 else random_zipfian(1, 50000 * :scale, 1.1) end
\array personal 4 :features[:row + 1]
\set hash hash(:person, :source)
\set other_hash hash(:person, :source + 20)
\set document random_text(200, 400)
\set summary random_text(40, 80)

-- Is the record known?
select name from er_sources where source = :source;
select record_id from er_observed where source_key = :hash and source = :source;
\if random(1, 100) <= 35
select record_id from er_observed where source_key = :other_hash and source = :source;
\endif

-- The record and what it shows.
insert into er_records (source, hash, loaded, document) values (:source, :hash, now(), :document)
    returning record_id as record \gset
insert into er_observed (record_id, source, source_key) values (:record, :source, :hash);
\if :extras
insert into er_record_hashes (hash, record_id) values (:hash, :record);
insert into er_feature_hashes (hash, feature_id) values \rows :count \
  hash(:features[:row + 1]), :features[:row + 1]
\endif

-- Its features, and how often they are used. One that very many have is generic, and not counted.
insert into er_features (feature_id, kind, hash, words) values :rows on conflict do nothing \rows :count \
  :features[:row + 1], :row, hash(:features[:row + 1]), text_of(:features[:row + 1], 24)
insert into er_feature_stats (feature_id, records) values :rows on conflict do nothing \rows :count \
  :features[:row + 1], 0

select feature_id, kind, words from er_features where feature_id = any(:features);
select feature_id, kind, words from er_features where feature_id = any(:features);
select feature_id, kind, words from er_features where feature_id = any(:features);
\if random(1, 100) <= 60
select feature_id, kind, words from er_features where feature_id = any(:personal);
\endif
select coalesce(array_agg(feature_id order by feature_id), '{}') as counted,
       coalesce(array_agg(records order by feature_id), '{}') as counts, count(*) as countable
  from er_feature_stats where feature_id = any(:features) and records < 1000 \gset
\if :countable > 0
\expect 40P01 or success
update er_feature_stats as s set records = s.records + 1 from (values :rows) as v (feature_id, records)
 where s.feature_id = v.feature_id::bigint and s.records = v.records::int \rows :countable \
  :counted[:row + 1], :counts[:row + 1]
\endif

-- Who shares them? The entity that has the first is the one; without it the record makes a new one.
\set entity 0
\set other 0
\set rare :features[4]
\set shared :features[11]
select entity_id as entity from er_feature_keys where feature_id = :person order by entity_id limit 1 \aset
select entity_id as other from er_feature_keys where feature_id = :shared limit 10 \aset
\if random(1, 100) <= 70
select entity_id from er_feature_keys where feature_id = :rare limit 10;
\endif
select coalesce(array_agg(entity_id), '{}') as candidates
  from (select distinct entity_id from er_feature_keys where feature_id = any(:personal) limit 6) as c \gset
\if :entity = 0
insert into er_entities (summary) values (:summary) returning entity_id as entity \gset
\endif
\if :other = 0
\set other :entity
\endif

-- Each of six candidates is compared: its members, relations and features.
\set candidate case when :candidates[1] is null then :other else :candidates[1] end
\set feature :features[5]
select records, version, summary from er_entities where entity_id = :candidate;
select 1 from er_entity_records r join er_observed o using (record_id) where r.entity_id = :candidate limit 1;
select other_id, level from er_relations where entity_id = :candidate limit 10;
select entity_id, level from er_relations where other_id = :candidate limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 1 limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 2 limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 3 limit 10;
select record_id from er_entity_records where entity_id = :candidate limit 10;
select records from er_feature_stats where feature_id = :feature;
select words from er_features where feature_id = :feature;

\set candidate case when :candidates[2] is null then :other else :candidates[2] end
\set feature :features[6]
select records, version, summary from er_entities where entity_id = :candidate;
select 1 from er_entity_records r join er_observed o using (record_id) where r.entity_id = :candidate limit 1;
select other_id, level from er_relations where entity_id = :candidate limit 10;
select entity_id, level from er_relations where other_id = :candidate limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 1 limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 2 limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 3 limit 10;
select record_id from er_entity_records where entity_id = :candidate limit 10;
select records from er_feature_stats where feature_id = :feature;
select words from er_features where feature_id = :feature;

\set candidate case when :candidates[3] is null then :other else :candidates[3] end
\set feature :features[7]
select records, version, summary from er_entities where entity_id = :candidate;
select 1 from er_entity_records r join er_observed o using (record_id) where r.entity_id = :candidate limit 1;
select other_id, level from er_relations where entity_id = :candidate limit 10;
select entity_id, level from er_relations where other_id = :candidate limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 1 limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 2 limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 3 limit 10;
select record_id from er_entity_records where entity_id = :candidate limit 10;
select records from er_feature_stats where feature_id = :feature;
select words from er_features where feature_id = :feature;

\set candidate case when :candidates[4] is null then :other else :candidates[4] end
\set feature :features[8]
select records, version, summary from er_entities where entity_id = :candidate;
\if random(1, 100) <= 30
select 1 from er_entity_records r join er_observed o using (record_id) where r.entity_id = :candidate limit 1;
\endif
select other_id, level from er_relations where entity_id = :candidate limit 10;
select entity_id, level from er_relations where other_id = :candidate limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 1 limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 2 limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 3 limit 10;
select record_id from er_entity_records where entity_id = :candidate limit 10;
select records from er_feature_stats where feature_id = :feature;
select words from er_features where feature_id = :feature;

\set candidate case when :candidates[5] is null then :other else :candidates[5] end
\set feature :features[9]
select records, version, summary from er_entities where entity_id = :candidate;
select other_id, level from er_relations where entity_id = :candidate limit 10;
select entity_id, level from er_relations where other_id = :candidate limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 1 limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 2 limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 3 limit 10;
select record_id from er_entity_records where entity_id = :candidate limit 10;
select records from er_feature_stats where feature_id = :feature;
select words from er_features where feature_id = :feature;

\set candidate case when :candidates[6] is null then :other else :candidates[6] end
\set feature :features[10]
select records, version, summary from er_entities where entity_id = :candidate;
select other_id, level from er_relations where entity_id = :candidate limit 10;
select entity_id, level from er_relations where other_id = :candidate limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 1 limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 2 limit 10;
select feature_id from er_feature_keys where entity_id = :candidate and kind = 3 limit 10;
select record_id from er_entity_records where entity_id = :candidate limit 10;
select records from er_feature_stats where feature_id = :feature;
select words from er_features where feature_id = :feature;

-- The record becomes part of the entity, and its features lead there.
insert into er_entity_records (record_id, entity_id, reason) values (:record, :entity, 1);
select records, version from er_entities where entity_id = :entity;
update er_entities set records = records + 1, version = version + 1 where entity_id = :entity;
\expect 40P01 or success
insert into er_feature_keys (feature_id, entity_id, kind) values :rows on conflict do nothing \rows :count \
  :features[(:row + :first) % :count + 1], :entity, (:row + :first) % :count
update er_feature_keys set seen = seen + 1 where feature_id = :person and entity_id = :entity;
\if random(1, 100) <= 30
select feature_id, kind from er_feature_keys where entity_id = :entity;
\endif

-- Relations to others.
select count(*) from er_relations where entity_id = :entity;
\if :other != :entity and random(1, 100) <= 60
\set low least(:entity, :other)
\set high greatest(:entity, :other)
insert into er_relations (entity_id, other_id, level) values (:low, :high, 1)
    on conflict (entity_id, other_id) do update set version = er_relations.version + 1;
\if random(1, 100) <= 30
delete from er_relations where entity_id = :low and other_id = :high;
\endif
\endif

-- Redo work: a feature whose use has changed is looked at again later.
\if random(1, 100) <= 36
insert into er_queue (feature_id) values (:rare);
\endif
\if random(1, 100) <= 36
\set redo 0
delete from er_queue where id = (select id from er_queue order by id limit 1 for update skip locked)
    returning feature_id as redo \aset
update er_feature_stats set redone = redone + 1 where feature_id = :redo;
\endif

-- The record is finished.
update er_observed set features = :features where record_id = :record;
select source, loaded from er_records where record_id = :record;
