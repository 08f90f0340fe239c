-- Writes a record and waits until the WAL is flushed up to it; what precedes it is flushed with it.
begin;
set local synchronous_commit = local;
select pg_logical_emit_message(true, 'pgdyno', '');
commit
