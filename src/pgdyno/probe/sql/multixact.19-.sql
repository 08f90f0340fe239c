-- Members of multixacts: from version 19 on they are counted, and their room has no limit.
select null::bigint as member_files, num_members as members_max
  from pg_get_multixact_stats()
 where num_members is not null
