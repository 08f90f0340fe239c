-- Updates of an indexed column.
update {table} set k = k + 1
 where id in (select 1 + (hashint8(%(done)s + i + 7) & 2147483647) %% %(rows)s
                from generate_series(1, %(count)s) i)
