-- No view counts them by context before PostgreSQL 16.
select 0::float8 as vacuum_io, 0::float8 as all_io
