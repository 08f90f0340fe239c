-- Files of the space for members of multixacts, which has no counter in SQL before version 19.
select count(*) as files from pg_ls_dir('pg_multixact/members')
