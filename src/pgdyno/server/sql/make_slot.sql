-- Creates a physical slot named %(name)s that reserves WAL immediately, unless it exists.
select pg_create_physical_replication_slot(%(name)s, true)
where not exists (select from pg_replication_slots where slot_name = %(name)s)
