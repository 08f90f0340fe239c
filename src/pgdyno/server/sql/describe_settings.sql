-- The named settings, as this connection sees them; without those values that it has set itself.
select name, case when name in ('search_path', 'row_security') then reset_val else setting end,
       unit, vartype, min_val, max_val, enumvals, context, source, pending_restart,
       current_setting('server_version_num')::int
  from pg_settings
 where name = any (%(names)s::text[])
