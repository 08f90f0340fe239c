-- True if others than superusers may give the server the mark.
select exists (select from pg_parameter_acl where parname = 'pgdyno.undo')
