-- Functions of users and extensions that this session has called since it last reported its counts,
-- with their times in milliseconds: pg_stat_xact_user_functions, without its join of all functions. Names of operators
-- are of pg_catalog, as the session keeps the load's search_path.
select p.oid::pg_catalog.text,
       pg_catalog.concat(n.nspname, '.', p.proname, '(', pg_catalog.oidvectortypes(p.proargtypes), ')'),
       (p.prorettype operator(pg_catalog.=) 'pg_catalog.trigger'::pg_catalog.regtype)::pg_catalog.int4,
       pg_catalog.pg_stat_get_xact_function_calls(p.oid),
       pg_catalog.pg_stat_get_xact_function_total_time(p.oid),
       pg_catalog.pg_stat_get_xact_function_self_time(p.oid)
  from pg_catalog.pg_proc p
  join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) p.pronamespace
 where p.oid operator(pg_catalog.>=) '16384'::pg_catalog.oid
   and pg_catalog.pg_stat_get_xact_function_calls(p.oid) operator(pg_catalog.>) 0
