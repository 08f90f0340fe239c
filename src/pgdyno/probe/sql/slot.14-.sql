-- One row per replication slot: the WAL and the transaction IDs that it keeps. restart_lsn is NULL
-- for a slot that was never used, and for one that has lost its WAL.
select slot_name::text as slot_name, slot_type::text as slot_type, active::int as active,
       wal_status, safe_wal_size as safe_wal_bytes,
       pg_wal_lsn_diff(restart_lsn, '0/0')::bigint as restart_lsn_bytes,
       age(xmin) as xmin_age, age(catalog_xmin) as catalog_xmin_age
  from pg_replication_slots
 where not temporary
