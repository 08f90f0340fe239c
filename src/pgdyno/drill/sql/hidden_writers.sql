-- True if something may write to a table that no script names: triggers (those of foreign keys write
-- only if they cascade), rules, and the user's functions.
select exists (
    select from pg_trigger t
    left join pg_constraint k on k.oid = t.tgconstraint
    where not t.tgisinternal or k.confdeltype not in ('a', 'r') or k.confupdtype not in ('a', 'r')
) or exists (
    select from pg_rewrite r
    join pg_class c on c.oid = r.ev_class
    where c.relkind in ('r', 'p')
) or exists (
    select from pg_proc p
    join pg_namespace n on n.oid = p.pronamespace
    where n.nspname !~ '^pg_'
        and n.nspname <> 'information_schema'
        and not exists (
            select from pg_depend d
            where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
        )
);
