-- A role that owns the database pgdyno, and may make objects in its schema public, which it does not own.
create role pgdyno_owner login;
-- What the owner sets for the database, a superuser's sessions would otherwise have as well: objects
-- that they make would be his, and texts in their SQL would end elsewhere.
alter role pgdyno in database pgdyno set role = 'none';
alter role pgdyno in database pgdyno set standard_conforming_strings = 'on';
alter database pgdyno owner to pgdyno_owner;
do $$
begin
    if to_regnamespace('public') is not null then
        alter schema public owner to pgdyno;
        grant usage, create on schema public to pgdyno_owner;
    end if;
end $$;
