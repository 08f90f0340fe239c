-- How the server was compiled.
select name, setting from pg_config
