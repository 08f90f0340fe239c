-- The oldest rows that were inserted, or else of the first ones.
delete from {table} where id in (select id from {table} order by id desc limit %(count)s)
