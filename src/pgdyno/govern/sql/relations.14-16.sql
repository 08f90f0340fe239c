-- The oldest relations of this database, with the table that VACUUM names for a TOAST table.
with oldest as (
    select oid, relkind, relisshared, relpersistence, relpages, age(relfrozenxid)::bigint as xid_age,
           mxid_age(relminmxid)::bigint as mxid_age
      from pg_class
     where relkind in ('r', 'm', 't') and relfrozenxid::text <> '0'
     order by greatest(age(relfrozenxid), mxid_age(relminmxid)) desc
     limit %(count)s)
select t.oid::bigint as oid, n.nspname::text as schema, t.relname::text as name,
       o.relkind = 't' as toast, o.relpersistence = 't' as temporary, o.xid_age, o.mxid_age,
       o.relpages::bigint * current_setting('block_size')::bigint as bytes,
       (select rolsuper from pg_roles where rolname = current_user)
       or (not o.relisshared and (pg_has_role(t.relowner, 'USAGE')
                                  or pg_has_role(d.datdba, 'USAGE'))) as may_vacuum
  from oldest o
  left join pg_class p on p.reltoastrelid = o.oid
  join pg_class t on t.oid = coalesce(p.oid, o.oid)
  join pg_namespace n on n.oid = t.relnamespace
  join pg_database d on d.datname = current_database()
 order by greatest(o.xid_age, o.mxid_age) desc, n.nspname, t.relname
