-- Ends the user of the slot named %(name)s, or drops the slot if it is free. No row: it is dropped.
select case when active then pg_terminate_backend(active_pid)::text
            else pg_drop_replication_slot(slot_name)::text end
from pg_replication_slots
where slot_name = %(name)s
