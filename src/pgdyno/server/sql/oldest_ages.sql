-- The oldest transaction ID and multixact of all databases, and their ages.
select max(age(datfrozenxid)), max(mxid_age(datminmxid)),
       (array_agg(datfrozenxid::text::bigint order by age(datfrozenxid) desc))[1],
       (array_agg(datminmxid::text::bigint order by mxid_age(datminmxid) desc))[1]
  from pg_database
