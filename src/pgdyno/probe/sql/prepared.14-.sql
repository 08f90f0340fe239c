-- Prepared transactions, the oldest by name; one row also if there are none.
select count(*) as count, max(age(transaction)) as xid_age,
       (array_agg(gid order by prepared))[1] as gid,
       extract(epoch from clock_timestamp() - min(prepared))::float8 * 1000 as held_ms
  from pg_prepared_xacts
