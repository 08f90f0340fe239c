-- Columns of some tables with their statistics, without values: of a default only its kind, of the
-- most common values their shares, of those that at least so many rows have.
select a.attrelid::bigint as table_id, a.attname as name,
       format_type(a.atttypid, a.atttypmod) as type,
       case when base.typtype = 'e' then 'enum' when base.typcategory = 'A' then 'array'
            else base.typname end as base,
       n.nspname = 'pg_catalog' as is_builtin, t.typtype = 'd' as is_domain,
       format_type(base.oid, nullif(t.typtypmod, -1)) as domain_type,
       a.attnotnull as not_null, a.attidentity <> '' as identity, a.attgenerated as generated,
       case when a.attgenerated <> '' then default_text end as expression,
       (select count(*) from pg_enum e where e.enumtypid = base.oid)::int as labels,
       case when d.oid is null then 'none'
            when default_text ~ '^nextval\(' then 'sequence'
            when default_text ~* concat('^\(*(now\(\)|current_(timestamp|date)|localtimestamp',
                                        '|(clock|statement|transaction)_timestamp\(\))')
            then 'time'
            when default_text ~* '^(\w+\.)?(gen_random_uuid|uuid_generate_v4|uuidv4|uuidv7)\(\)'
            then 'uuid'
            else 'value' end as default_kind,
       s.null_frac::float8 as null_share, s.n_distinct::float8 as distinct_values,
       s.avg_width::float8 as width_bytes, s.correlation::float8 as correlation,
       s.elem_count_histogram[cardinality(s.elem_count_histogram)]::float8 as elements,
       (select s.elem_count_histogram[cardinality(s.elem_count_histogram)] / avg(share)
          from unnest(trim_array(s.most_common_elem_freqs, 3)) as share)::float8
       as distinct_elements,
       array(select share::float8 from unnest(s.most_common_freqs) as share
              where share * greatest(c.reltuples, 0) >= %(rows_min)s
              order by share desc limit 20) as frequent
  from pg_attribute a
  join pg_class c on c.oid = a.attrelid
  join pg_namespace cn on cn.oid = c.relnamespace
  join pg_type t on t.oid = a.atttypid
  join pg_type base on base.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end
  join pg_namespace n on n.oid = base.typnamespace
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  left join lateral pg_get_expr(d.adbin, d.adrelid) as default_text on true
  left join pg_stats s on s.schemaname = cn.nspname and s.tablename = c.relname
   and s.attname = a.attname and (s.inherited = (c.relkind = 'p'))
 where a.attrelid = any (%(tables)s::oid[]) and a.attnum > 0 and not a.attisdropped
 order by a.attrelid, a.attnum
