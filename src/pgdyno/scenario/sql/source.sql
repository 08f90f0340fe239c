-- The database to copy: its size, encoding and locale, its extensions, and the names of settings
-- that it or the role has.
select pg_database_size(d.oid),
       pg_encoding_to_char(d.encoding)::text,
       d.datcollate::text,
       d.datctype::text,
       coalesce(to_jsonb(d) ->> 'datlocprovider', 'c'),
       coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale'),
       array(select extname::text from pg_extension order by 1),
       array(select distinct split_part(value, '=', 1)
               from pg_db_role_setting s, unnest(s.setconfig) as value
              where s.setdatabase in (0, d.oid)
                and s.setrole in (0, (select oid from pg_roles where rolname = current_user))
                and value not like 'search_path=%'
              order by 1)
  from pg_database d
 where d.datname = current_database()
