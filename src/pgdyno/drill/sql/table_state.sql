-- The number of rows of a table, and a hash of them that does not depend on their order. A cast of the
-- row to text could be a function of its owner's.
select count(*), coalesce(sum(hashtextextended(format('%s', pgdyno_row), 0)::numeric), 0)::text
from <table> pgdyno_row;
