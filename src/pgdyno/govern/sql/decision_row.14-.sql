-- The decision, with the time of its reading by the database's clock.
insert into {table} values (
    true, {decision}, {share}, {delay}, {why},
    clock_timestamp() - make_interval(secs => {age}), {valid}, {pid}, {since})
on conflict (one) do update set decision = excluded.decision, share = excluded.share,
    delay_per_s = excluded.delay_per_s, why = excluded.why, read_at = excluded.read_at,
    valid_s = excluded.valid_s, holder_pid = excluded.holder_pid,
    holder_began_us = excluded.holder_began_us
