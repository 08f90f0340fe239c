-- Extensions that were created in the database.
select extname::text from pg_extension where extname <> 'plpgsql'
