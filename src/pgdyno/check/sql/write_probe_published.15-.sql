-- A publication that has every new table of the schema in which tables are made.
select p.pubname::text
  from pg_publication as p
 where p.puballtables
    or exists (
         select from pg_publication_namespace as n
          where n.pnpubid = p.oid
            and n.pnnspid = (select oid from pg_namespace where nspname = %(schema)s)
       )
 limit 1
