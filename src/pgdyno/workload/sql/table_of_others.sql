-- The first of these tables that this role does not own.
select c.oid::regclass::text as name, quote_ident(r.rolname) as owner, quote_ident(current_user) as role
  from unnest(%(names)s::text[]) as given (name)
  join pg_class c on c.oid = to_regclass(given.name)
  join pg_roles r on r.oid = c.relowner
 where r.rolname <> current_user
 order by given.name
 limit 1
