-- Extensions of these names that the server cannot create.
select unnest(%s::text[]) except select name::text from pg_available_extensions order by 1
