-- The largest indexes without a scan since the statistics began, or for 30 days, that enforce
-- nothing and are not part of a partitioned one.
select format('%I.%I', n.nspname, t.relname) as relation,
       format('%I.%I', n.nspname, x.relname) as index_name, x.relpages as pages,
       pg_stat_get_tuples_inserted(t.oid) + pg_stat_get_tuples_updated(t.oid)
           + pg_stat_get_tuples_deleted(t.oid) as n_written,
       extract(epoch from clock_timestamp() - pg_stat_get_lastscan(x.indexrelid))::float8
           as scanned_s
  from (select i.indexrelid, i.indrelid, c.relname, c.relpages, c.relnamespace
          from pg_class c
          join pg_index i on i.indexrelid = c.oid
         where c.relpages >= 16 and c.relkind = 'i' and not c.relispartition
           and c.relpersistence <> 't'
           and (pg_stat_get_numscans(c.oid) = 0
              or pg_stat_get_lastscan(c.oid) < clock_timestamp() - interval '30 days')
           and not (i.indisunique or i.indisexclusion or i.indisreplident or i.indisclustered)
           and i.indisvalid and i.indrelid >= 16384
         order by c.relpages desc, c.oid
         limit 100) x
  join pg_class t on t.oid = x.indrelid and t.relkind <> 't'
  join pg_namespace n on n.oid = x.relnamespace
 order by x.relpages desc, x.indexrelid
