-- A physical slot named %(name)s that keeps WAL back from now on, if there is none.
select pg_create_physical_replication_slot(%(name)s, true)
where not exists (select from pg_replication_slots where slot_name = %(name)s)
