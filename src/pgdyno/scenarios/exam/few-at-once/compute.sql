-- Some milliseconds of work on one core.
select sum(i) from generate_series(1, 75000) as i;
