-- Read the load's tables and indexes into shared_buffers.
select coalesce(sum({schema}.pg_prewarm(c.oid::regclass)), 0)::int8
  from pg_class as c
 where c.relkind in ('r', 'm', 'i', 't')
   and c.relpersistence <> 't'
   and c.oid >= 16384
   and pg_relation_size(c.oid) > 0
