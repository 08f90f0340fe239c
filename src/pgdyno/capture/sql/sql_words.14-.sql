-- Words of SQL and of the server: keywords, and the names of what each database has.
select word from pg_get_keywords()
union select proname from pg_proc where pronamespace = 'pg_catalog'::regnamespace
union select typname from pg_type where typnamespace = 'pg_catalog'::regnamespace
union select amname from pg_am
union select opcname from pg_opclass
union select collname from pg_collation
union select relname from pg_class where relnamespace = 'pg_catalog'::regnamespace
union select a.attname
        from pg_attribute a
        join pg_class c on c.oid = a.attrelid and c.relnamespace = 'pg_catalog'::regnamespace
union select name from pg_settings
