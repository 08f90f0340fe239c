-- What must hold in the tables of entity-resolution at any moment, each as a count of rows for which
-- it does not. A record is unfinished while its observed entity has no features: its load was cut
-- off between two statements, each of which commits by itself. A deadlock costs a record at most
-- some of its feature keys.
with resolved as (
    select o.record_id, o.features is not null as finished, r.entity_id
      from {schema}.er_observed o left join {schema}.er_entity_records r using (record_id)
), of_entities as (
    select entity_id, count(*) as assigned, count(*) filter (where finished) as finished
      from resolved where entity_id is not null group by entity_id
), counted as (
    select e.entity_id, e.records, coalesce(o.assigned, 0) as assigned,
           coalesce(o.finished, 0) as finished
      from {schema}.er_entities e left join of_entities o using (entity_id)
)
select (select count(*) from {schema}.er_records) as records,
       (select count(*) from {schema}.er_records r
         where not exists (select from resolved o
                            where o.record_id = r.record_id and o.finished)) as unfinished,
       (select count(*) from {schema}.er_entities) as entities,
       (select count(*) from {schema}.er_observed o
         where not exists (select from {schema}.er_records r where r.record_id = o.record_id))
           as observed_without_record,
       (select count(*) from resolved where finished and entity_id is null) as in_no_entity,
       (select count(*) from (select record_id from {schema}.er_entity_records
                               group by record_id having count(*) > 1) twice) as in_two_entities,
       (select count(*) from of_entities o
         where not exists (select from {schema}.er_entities e where e.entity_id = o.entity_id))
           as in_unknown_entities,
       (select count(*) from counted where records not between finished and assigned)
           as wrong_counts,
       (select count(*) from {schema}.er_feature_keys k
         where not exists (select from {schema}.er_features f where f.feature_id = k.feature_id)
            or not exists (select from {schema}.er_entities e where e.entity_id = k.entity_id))
           as stray_keys,
       (select count(*) from {schema}.er_feature_stats s
          left join (select feature_id, count(*) as uses
                       from {schema}.er_observed, unnest(features) as feature_id group by feature_id) u
                 using (feature_id)
         where s.records > coalesce(u.uses, 0)
               + (select count(*) from {schema}.er_observed where features is null)) as overcounted
