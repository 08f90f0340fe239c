-- Ages of all databases, and the next IDs; reading them assigns none. mxid_age('1') is the next
-- multixact less one, modulo 2^32.
select d.datname::text as database, age(d.datfrozenxid)::bigint as xid_age,
       mxid_age(d.datminmxid)::bigint as mxid_age, d.datallowconn as connectable,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next_xid,
       mxid_age('1')::bigint as next_mxid, pg_is_in_recovery() as in_recovery
  from pg_database d
 order by greatest(age(d.datfrozenxid), mxid_age(d.datminmxid)) desc, d.datname
