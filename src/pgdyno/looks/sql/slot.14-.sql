-- Replication slots, with the WAL that each keeps.
select slot_name::text as slot, slot_type::text as type, active, wal_status,
       pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                            else pg_current_wal_lsn() end, restart_lsn)::float8 as kept_bytes,
       age(xmin) as xmin_age, age(catalog_xmin) as catalog_xmin_age
  from pg_replication_slots
 where not temporary
 limit 200
