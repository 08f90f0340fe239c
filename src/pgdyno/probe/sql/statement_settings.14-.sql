-- What is counted of statements: times of blocks, and of planning.
select current_setting('track_io_timing')::boolean as io,
       coalesce(current_setting('pg_stat_statements.track_planning', true), 'off')::boolean as plan
