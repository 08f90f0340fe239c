-- The setting of JIT, if it is not at its built-in value; the columns are those of unusual_settings.
select name, setting, boot_val, unit, source, false as needs_restart, true as in_statements,
       false as relied_on
  from pg_catalog.pg_settings
 where name = 'jit' and setting is distinct from boot_val
