-- Keys, references and checks of some tables.
select k.conrelid::bigint as table_id, k.contype::text as kind, k.confrelid::bigint as other_id,
       array(select a.attname::text from unnest(k.conkey) with ordinality as key (number, place)
               join pg_attribute a on a.attrelid = k.conrelid and a.attnum = key.number
              order by key.place) as columns,
       array(select a.attname::text from unnest(k.confkey) with ordinality as key (number, place)
               join pg_attribute a on a.attrelid = k.confrelid and a.attnum = key.number
              order by key.place) as keys,
       case k.confdeltype when 'c' then 'on delete cascade' when 'n' then 'on delete set null'
                          when 'd' then 'on delete set default' else '' end
       || case when k.condeferred then ' deferrable initially deferred'
               when k.condeferrable then ' deferrable' else '' end as action,
       case when k.contype = 'c' and text !~ ' NOT ENFORCED'
            then regexp_replace(text, ' NOT VALID$', '') end as sql
  from pg_constraint k
  left join lateral pg_get_constraintdef(k.oid) as text on true
 where k.conrelid = any (%(tables)s::oid[]) and k.contype in ('p', 'u', 'f', 'c', 'x')
   and k.conparentid = 0
 order by k.conrelid, k.contype <> 'p', k.conname
