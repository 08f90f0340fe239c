-- All items of some fifteen pages change in one statement.
\set first 1 + 960 * random(0, 49)
\set last :first + 959
update items set n = n + 1 where id between :first and :last;
