-- Bytes of the load's tables and indexes, and of shared_buffers; whether pg_prewarm is installed.
select coalesce(sum(pg_relation_size(c.oid)), 0)::int8,
       pg_size_bytes(current_setting('shared_buffers')),
       exists (select from pg_available_extensions where name = 'pg_prewarm')
  from pg_class as c
 where c.relkind in ('r', 'm', 'i', 't')
   and c.relpersistence <> 't'
   and c.oid >= 16384
