-- Errors that prevent the files, or a line of them, from being loaded; first those that prevent
-- parsing, with true, after which nothing at all is loaded. A required restart is no error.
select f.name is null, concat_ws(': ', f.sourcefile || ', line ' || f.sourceline, f.name, f.error)
  from pg_file_settings f
       left join pg_settings p on lower(p.name) = lower(f.name)
 where f.error is not null
   and (f.error <> 'setting could not be applied' or p.context <> 'postmaster')
 order by f.name is not null, f.seqno
 limit 1
