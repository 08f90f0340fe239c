-- Indexes that an interrupted CREATE INDEX CONCURRENTLY or REINDEX left behind. Those whose table
-- is locked as by such a command are being built.
select format('%I.%I', n.nspname, t.relname) as relation,
       format('%I.%I', n.nspname, c.relname) as index_name, c.relpages as pages,
       i.indisready as written
  from pg_index i
  join pg_class c on c.oid = i.indexrelid
  join pg_class t on t.oid = i.indrelid
  join pg_namespace n on n.oid = c.relnamespace
 where not i.indisvalid and c.relkind = 'i'
   and not exists (select from pg_locks l
                    where l.locktype = 'relation' and l.relation = i.indrelid
                      and l.mode = 'ShareUpdateExclusiveLock' and l.granted)
 order by c.relpages desc, c.oid
 limit 50
