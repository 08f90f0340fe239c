-- Rows of a table, and a hash over them in whatever order they are.
select count(*), coalesce(sum(hashtextextended(pgdyno_row::text, 0)::numeric), 0)::text
from <table> pgdyno_row;
