-- Functions of these names that are volatile, as SQL names them with their types; '' of those built
-- in, which nobody declares anew.
select p.proname::text,
       case when p.oid >= 16384 then p.oid::pg_catalog.regprocedure::text else '' end
  from pg_catalog.pg_proc p
 where p.proname = any (%s) and p.provolatile = 'v' and p.prokind = 'f'
 order by p.proname
