-- Settings of autovacuum and of freezing.
select name, setting
  from pg_settings
 where name like 'autovacuum%' or name like 'vacuum%' or name = 'block_size'
