-- True if roles other than superusers may set the mark.
select exists (select from pg_parameter_acl where parname = 'pgdyno.undo')
