-- True if the role is a superuser and so may set the mark; from 15 on it can also be granted.
select rolsuper from pg_roles where rolname = current_user
