-- Ends who uses the slot named %(name)s, and drops it once it is free. No row: there is none left.
select case when active then pg_terminate_backend(active_pid)::text
            else pg_drop_replication_slot(slot_name)::text end
from pg_replication_slots
where slot_name = %(name)s
