-- Lines of pg_hba.conf that the server cannot use.
select line_number, error
  from pg_hba_file_rules
 where error is not null
 limit 20
