-- The decision as of this moment: "pause" unless the row is fresh, and the session that it names
-- holds the governor's lock. When sessions of others began is not shown to every role: then the
-- process alone tells.
create view {view} as
select case when live then s.decision else 'pause' end as decision,
       live and s.decision <> 'pause' as go,
       case when live then s.share else 0 end as share,
       case when live then s.delay_per_s else 0 end as delay_per_s,
       case when live then s.why
            when s.read_at is null then 'no governor has decided yet'
            when not held then 'no governor is at work'
            else 'the governor''s decision is too old, or the clock has jumped' end as why,
       s.read_at, extract(epoch from clock_timestamp() - s.read_at)::float8 as age_s
  from (select) only_row
  left join {table} s on true
 cross join lateral (select exists (
            select from pg_catalog.pg_locks l
              left join pg_catalog.pg_stat_activity a on a.pid = l.pid
             where l.locktype = 'advisory' and l.granted and l.objsubid = 1
               and l.database = (select oid from pg_catalog.pg_database
                                  where datname = pg_catalog.current_database())
               and (l.classid::bigint << 32 | l.objid::bigint) = {key}
               and l.pid = s.holder_pid
               and coalesce((extract(epoch from a.backend_start) * 1000000)::bigint
                            = s.holder_began_us, true)) as held) h
 cross join lateral (select h.held and coalesce(
            extract(epoch from clock_timestamp() - s.read_at) between 0 and s.valid_s, false)
            as live) l;
grant select on {view} to public
