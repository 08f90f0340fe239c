-- What pg_stat_statements has counted of the statements of this database, without their texts
-- (version 1.10 of it).
select queryid::text as id, sum(calls)::bigint as calls, sum(total_exec_time) as exec_ms,
       sum(total_plan_time) as plan_ms, sum(rows)::bigint as rows,
       sum(wal_records)::bigint as wal_records, sum(wal_fpi)::bigint as wal_fpi,
       sum(wal_bytes)::bigint as wal_bytes, null::bigint as wal_buffers_full,
       sum(shared_blks_read)::bigint as blocks_read,
       sum(shared_blks_dirtied)::bigint as blocks_dirtied,
       sum(shared_blks_written)::bigint as blocks_written,
       sum(local_blks_dirtied)::bigint as local_blocks_dirtied,
       sum(temp_blks_read + temp_blks_written)::bigint as temp_blocks,
       sum(blk_read_time) as read_ms,
       sum(blk_write_time) as write_ms,
       sum(jit_generation_time + jit_inlining_time
           + jit_optimization_time + jit_emission_time) as jit_ms,
       null::float8 as since
  from {schema}.pg_stat_statements(false)
 where dbid = (select oid from pg_database where datname = current_database())
   and queryid is not null and toplevel
 group by queryid
