-- True if a table of entity-resolution, or a partition of one, is unlogged, or if there is none.
select coalesce(bool_or(relpersistence <> 'p'), true)
  from pg_class
 where relkind in ('r', 'p') and relnamespace = (
     select relnamespace from pg_class where oid = to_regclass('er_records')
 ) and relname ~ '^er_';
