-- Blocks read and written by vacuum and analyze, and by all. What autovacuum's workers read of the
-- catalogs is left out: they come far more often here than on a server in use.
select coalesce(sum(amount) filter (where context = 'vacuum'), 0)::float8 as vacuum_io,
       coalesce(sum(amount) filter (where context = 'vacuum' or backend_type !~ '^autovacuum'),
                0)::float8 as all_io
  from (select context, backend_type,
               coalesce(reads, 0) + coalesce(writes, 0) + coalesce(extends, 0) as amount
          from pg_stat_io
         where object = 'relation') io
