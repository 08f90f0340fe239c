-- What pgdyno has pinned the age with.
select slot_name::text from pg_replication_slots where slot_name = %(own)s
union all
select gid from pg_prepared_xacts where gid = %(own)s
