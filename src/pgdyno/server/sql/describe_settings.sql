-- The named settings, as this connection sees them.
select name, setting, unit, vartype, min_val, max_val, enumvals, context, source, pending_restart
  from pg_settings
 where name = any (%(names)s::text[])
