-- Tables with autovacuum turned off by their own option, those with the most dead rows first.
select format('%I.%I', n.nspname, c.relname) as relation, c.relpages as pages,
       pg_stat_get_tuples_inserted(c.oid) as n_ins, pg_stat_get_tuples_updated(c.oid) as n_upd,
       pg_stat_get_tuples_deleted(c.oid) as n_del, pg_stat_get_dead_tuples(c.oid) as n_dead,
       age(c.relfrozenxid) as xid_age,
       extract(epoch from clock_timestamp() - greatest(
           pg_stat_get_last_vacuum_time(c.oid),
           pg_stat_get_last_autovacuum_time(c.oid)))::float8 as vacuumed_s
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.reloptions is not null and c.relkind in ('r', 'm')
   and exists (select from pg_options_to_table(c.reloptions)
                where option_name = 'autovacuum_enabled'
                  and lower(option_value) in ('f', 'fa', 'fal', 'fals', 'false', 'of', 'off',
                                              'n', 'no', '0'))
 order by pg_stat_get_dead_tuples(c.oid) desc, c.oid
 limit 50
