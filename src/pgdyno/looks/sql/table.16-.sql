-- Tables of this database: those with the most writes, and those with the most dead rows. Sizes are
-- those of pg_class, in pages; counters are since the statistics began.
with counted as materialized (
    select oid, relpages, reltuples,
           pg_stat_get_tuples_inserted(oid) as n_ins, pg_stat_get_tuples_updated(oid) as n_upd,
           pg_stat_get_tuples_deleted(oid) as n_del, pg_stat_get_dead_tuples(oid) as n_dead
      from pg_class
     where relkind in ('r', 'm') and relpersistence <> 't'
), chosen as (
    (select * from counted order by n_ins + n_upd + n_del desc, oid limit 100)
    union
    (select * from counted where n_dead > 0 order by n_dead desc, oid limit 50)
)
select format('%I.%I', n.nspname, c.relname) as relation,
       n.nspname in ('pg_catalog', 'information_schema') as system,
       k.relpages as pages, k.reltuples::float8 as rows, t.relpages as toast_pages,
       array_to_string(c.reloptions, ' ') as options,
       k.n_ins, k.n_upd, k.n_del, k.n_dead,
       pg_stat_get_tuples_hot_updated(c.oid) as n_hot,
       pg_stat_get_tuples_newpage_updated(c.oid) as n_newpage,
       pg_stat_get_live_tuples(c.oid) as n_live,
       extract(epoch from clock_timestamp() - greatest(
           pg_stat_get_last_vacuum_time(c.oid),
           pg_stat_get_last_autovacuum_time(c.oid)))::float8 as vacuumed_s
  from chosen k
  join pg_class c on c.oid = k.oid
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_class t on t.oid = c.reltoastrelid
 order by k.n_ins + k.n_upd + k.n_del desc, c.oid
