-- Updates of a column without an index, of rows all over the table.
update {table} set n = n + 1
 where id in (select 1 + (hashint8(%(done)s + i) & 2147483647) %% %(rows)s
                from generate_series(1, %(count)s) i)
