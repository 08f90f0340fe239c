-- What the server keeps of the role's password, null if it has none; superusers may read it.
select rolpassword from pg_authid where rolname = current_user
