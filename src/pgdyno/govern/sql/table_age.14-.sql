-- The age of a table and its TOAST table.
select greatest(age(c.relfrozenxid), mxid_age(c.relminmxid),
                age(t.relfrozenxid), mxid_age(t.relminmxid))::bigint as age
  from pg_class c
  left join pg_class t on t.oid = c.reltoastrelid
 where c.oid = %(oid)s
