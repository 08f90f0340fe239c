-- The stream consumer: a batch of events and the position after it, in one transaction, so that no
-- event is lost or inserted twice.
\set partition random(0, 7)
begin;
copy events (partition, kind, product, payload) from stdin \rows 400 :partition, 'viewed', random(1, 20000), random_uuid()
update offsets set position = position + 400 where partition = :partition;
commit;
