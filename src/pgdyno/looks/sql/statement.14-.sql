-- The statements of this database that take the most time, write the most WAL, or read the most
-- pages. Columns differ by the version of the extension, not of the server.
with plain as materialized (
    select s as entry, s.total_exec_time, s.wal_bytes,
           s.shared_blks_read + s.shared_blks_written + s.temp_blks_written as blocks
      from {schema}.pg_stat_statements s
     where s.dbid = (select oid from pg_database where datname = current_database())
), chosen as (
    (select * from plain order by total_exec_time desc limit 100)
    union all
    (select * from plain order by wal_bytes desc limit 50)
    union all
    (select * from plain order by blocks desc limit 50)
), total as (
    select sum(total_exec_time) as exec_ms, sum(wal_bytes)::float8 as wal_bytes,
           sum(blocks)::float8 as blocks, count(*) as statements
      from plain
)
select distinct on (e.counts ->> 'userid', e.counts ->> 'queryid', e.counts ->> 'toplevel')
       left(e.counts ->> 'query', 500) as query, (e.counts ->> 'calls')::float8 as calls,
       c.total_exec_time as exec_ms, (e.counts ->> 'total_plan_time')::float8 as plan_ms,
       (e.counts ->> 'rows')::float8 as rows, c.wal_bytes::float8 as wal_bytes,
       (e.counts ->> 'wal_fpi')::float8 as wal_fpi, c.blocks::float8 as blocks,
       (e.counts ->> 'temp_blks_written')::float8 as temp_blocks,
       (e.counts ->> 'jit_functions')::float8 as jit_functions,
       (e.counts ->> 'jit_generation_time')::float8
           + (e.counts ->> 'jit_inlining_time')::float8
           + (e.counts ->> 'jit_optimization_time')::float8
           + (e.counts ->> 'jit_emission_time')::float8 as jit_ms,
       coalesce((e.counts ->> 'toplevel')::boolean, true) as toplevel,
       t.exec_ms as exec_ms_total, t.wal_bytes as wal_bytes_total, t.blocks as blocks_total,
       t.statements
  from chosen c
 cross join total t
 cross join lateral (select to_jsonb(c.entry) as counts) e
 order by e.counts ->> 'userid', e.counts ->> 'queryid', e.counts ->> 'toplevel'
