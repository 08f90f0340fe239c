-- New rows, above all others.
insert into {table} select 1000000000 + %(done)s + i, i, 0, repeat('x', 60)
  from generate_series(1, %(count)s) i
