-- Files of members of multixacts: 32 pages of 8 kB with 1,636 members each (multixact.c). Their
-- room is 2^32 members, which can end before their IDs do.
select count(*) as member_files, count(*) * 32 * 1636 as members_max
  from pg_ls_dir('pg_multixact/members')
