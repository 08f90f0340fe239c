-- A publication that has every new table of the schema in which tables are made.
select pubname::text from pg_publication where puballtables limit 1
