-- All settings that the role may see. Of those that may hold a password or a key, only whether they
-- are set.
select name, unit, boot_val, source, context, pending_restart,
       case when name ~ '(_command|conninfo|passphrase)' and setting <> '' then '(set)'
            else setting end as setting,
       case when name in ('default_toast_compression', 'wal_compression') then enumvals end
           as enumvals
  from pg_catalog.pg_settings
