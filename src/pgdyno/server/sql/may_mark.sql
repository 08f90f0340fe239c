-- True if the role may give the server the mark; the parameter can be granted since 15.
select rolsuper from pg_roles where rolname = current_user
