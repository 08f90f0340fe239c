-- The first transaction ID that is not given yet.
select pg_snapshot_xmax(pg_current_snapshot())::text as xid
