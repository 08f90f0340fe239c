-- The number of rows of a table, and a hash of them that does not depend on their order.
select count(*), coalesce(sum(hashtextextended(pgdyno_row::text, 0)::numeric), 0)::text
from <table> pgdyno_row;
