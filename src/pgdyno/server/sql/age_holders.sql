-- Slots and prepared transactions, which do not survive a change of the next transaction ID.
select 'the replication slot', slot_name::text from pg_replication_slots where slot_name <> %(own)s
union all
select 'the prepared transaction', gid from pg_prepared_xacts where gid <> %(own)s
 order by 1, 2
