-- One row about the server's build.
select current_setting('server_version') as version,
       current_setting('server_version_num')::int as version_num,
       version() as told,
       current_setting('debug_assertions')::bool as assertions,
       pg_jit_available() as jit,
       array(select name::text from pg_available_extensions order by name) as extensions
