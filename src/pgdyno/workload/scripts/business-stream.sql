-- A stream consumer: a batch of events and the position after it, in one transaction, so that no event
-- is lost or inserted twice.
\set partition random(0, 7)
begin;
update business_positions set position = position + 100 where partition = :partition
    returning position - 100 as first \gset
copy business_events (partition, position, kind, product) from stdin \rows 100 :partition, :first + :row, 'viewed', random(1, 10000 * :scale)
commit;
