-- Errors that prevent the files, or a line of them, from being loaded. A required restart is none.
select coalesce(f.sourcefile || ', line ' || f.sourceline, 'the files'), concat_ws(': ', f.name, f.error)
  from pg_file_settings f
       left join pg_settings p on lower(p.name) = lower(f.name)
 where f.error is not null
   and (f.error <> 'setting could not be applied' or p.context <> 'postmaster')
 order by f.seqno
 limit 1
