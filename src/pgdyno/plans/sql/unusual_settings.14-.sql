-- Settings that a session may change, that are not at their built-in value, and that can change how
-- a statement is executed: by PostgreSQL's own categories. The rest are of names, formats and limits.
select name, setting, boot_val
  from pg_catalog.pg_settings
 where context in ('user', 'superuser')
   and setting is distinct from boot_val
   and (category like 'Query Tuning%' or category like 'Reporting and Logging%'
        or category like 'Statistics%' or category like 'Resource Usage%'
        or category in ('Developer Options', 'Customized Options'))
   and name not in ('application_name', 'max_stack_depth')
 order by name
