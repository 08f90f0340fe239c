-- All settings as a new session has them; boot_val is the built-in default, in the unit.
select name,
       current_setting(name) as shown,
       setting,
       boot_val,
       coalesce(unit, '') as unit,
       category,
       context
  from pg_settings
 order by name
