-- The row of the decision; unlogged, so that it costs no WAL and is gone after a crash.
create unlogged table {table} (
    one boolean primary key default true check (one), decision text not null,
    share float8 not null, delay_per_s float8 not null, why text not null,
    read_at timestamptz not null, valid_s float8 not null, holder_pid int not null,
    holder_began_us bigint not null) with (fillfactor = 10)
