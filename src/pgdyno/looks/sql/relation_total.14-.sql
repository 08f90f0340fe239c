-- Sizes of this database by pg_class, which vacuum and analyze keep: no file is looked at.
select count(*) as relations,
       coalesce(sum(relpages::bigint), 0)::float8 * current_setting('block_size')::int as bytes,
       coalesce(sum(relpages::bigint) filter (where relkind = 't'), 0)::float8
           * current_setting('block_size')::int as toast_bytes
  from pg_class
 where relkind in ('r', 'i', 'm', 't')
