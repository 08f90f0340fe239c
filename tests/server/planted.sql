-- What the owner of a database can put in the place of the system's functions, operators, types and
-- views: the same again, for a search_path that has the schema before pg_catalog, and better matches,
-- for one that has it behind. Each says in the server's log that it was called. {schema} is the
-- schema, {functions} and {operators} are arrays of the names for which better matches are made.
create function {schema}.told(what pg_catalog.text) returns pg_catalog.bool language plpgsql as
    $$ begin raise log 'planted: % as %', what, current_user; return true; end $$;

create function {schema}.body(what pg_catalog.text) returns pg_catalog.text language sql as
    $$ select pg_catalog.format('begin perform %s; return null; end', pg_catalog.format(
        '{schema}.told(%L)', what)) $$;

do $$
declare
    of_system record;
    types constant pg_catalog.text[] := '{{int2,int4,int8,numeric,float8,text,name,varchar,bpchar,
        oid,regclass,bool,timestamptz,interval,pg_lsn,xid}}';
    few constant pg_catalog.text[] := '{{int4,int8,text,name,oid}}';
begin
    -- As they are.
    for of_system in
        select p.oid, p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid) as given,
               pg_catalog.pg_get_function_result(p.oid) as result
          from pg_catalog.pg_proc p
         where p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace and p.prokind = 'f'
    loop
        begin
            execute pg_catalog.format(
                'create function {schema}.%I(%s) returns %s language plpgsql as %L',
                of_system.proname, of_system.given, of_system.result,
                case when of_system.result ~ '^(SETOF|TABLE)'
                     then pg_catalog.replace({schema}.body(of_system.proname), 'return null', 'return')
                     else {schema}.body(of_system.proname) end);
        exception when others then null;  -- Of internal types.
        end;
    end loop;
    -- Better matches.
    for of_system in
        select distinct on (p.proname, sides.left_type, sides.right_type, sides.third_type)
               p.proname, pg_catalog.concat_ws(', ', sides.left_type, sides.right_type,
                                               sides.third_type) as given,
               pg_catalog.format_type(p.prorettype, null) as result
          from pg_catalog.pg_proc p
          join pg_catalog.unnest({functions}::pg_catalog.text[]) as used (name)
            on used.name = p.proname
          cross join lateral (
              select one as left_type, null as right_type, null as third_type
                from pg_catalog.unnest(types) one
              union all
              select one, two, null from pg_catalog.unnest(types) one, pg_catalog.unnest(types) two
               where p.pronargs >= 2 or p.provariadic <> 0
              union all
              select one, two, three
                from pg_catalog.unnest(few) one, pg_catalog.unnest(few) two,
                     pg_catalog.unnest(few) three
               where p.pronargs >= 3 or p.provariadic <> 0) sides
         where p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace
    loop
        begin
            execute pg_catalog.format(
                'create function {schema}.%I(%s) returns %s language plpgsql as %L',
                of_system.proname, of_system.given, of_system.result,
                {schema}.body(of_system.proname));
        exception when others then null;  -- There is one already, or of internal types.
        end;
    end loop;
    for of_system in
        select one, two, pg_catalog.format('%s_%s', one, two) as name
          from pg_catalog.unnest(types) one, pg_catalog.unnest(types) two
    loop
        execute pg_catalog.format(
            'create function {schema}.%I(%s, %s) returns pg_catalog.bool language plpgsql as %L',
            of_system.name, of_system.one, of_system.two, {schema}.body(of_system.name));
    end loop;
    for of_system in
        select used.name, one, two, pg_catalog.format('%s_%s', one, two) as function
          from pg_catalog.unnest({operators}::pg_catalog.text[]) as used (name),
               pg_catalog.unnest(types) one, pg_catalog.unnest(types) two
    loop
        execute pg_catalog.format(
            'create operator {schema}.%s (leftarg = %s, rightarg = %s, function = {schema}.%I)',
            of_system.name, of_system.one, of_system.two, of_system.function);
    end loop;
    -- Views, and types with a check.
    for of_system in
        select c.relname, pg_catalog.string_agg(pg_catalog.quote_ident(a.attname), ', ') as columns
          from pg_catalog.pg_class c
          join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0
          join pg_catalog.pg_type t on t.oid = a.atttypid and t.typtype <> 'p'
         where c.relnamespace = 'pg_catalog'::pg_catalog.regnamespace and c.relkind in ('r', 'v')
           and c.relname !~ '^pg_statistic'
         group by c.oid, c.relname
    loop
        execute pg_catalog.format(
            'create view {schema}.%I as select %s from pg_catalog.%I where {schema}.told(%L)',
            of_system.relname, of_system.columns, of_system.relname, of_system.relname);
    end loop;
    for of_system in
        select t.typname from pg_catalog.pg_type t
         where t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace and t.typtype = 'b'
           and t.typelem = 0 and t.typname = any (types || '{{bytea,uuid,jsonb,json,xid8}}')
    loop
        execute pg_catalog.format(
            'create domain {schema}.%I as pg_catalog.%I check ({schema}.told(%L))',
            of_system.typname, of_system.typname, of_system.typname);
    end loop;
end $$;
