-- Publications of this database.
select pubname::text as publication from pg_publication order by 1 limit 20
