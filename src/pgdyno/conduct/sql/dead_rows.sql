select coalesce(sum(n_dead_tup), 0)::bigint as rows
from pg_stat_user_tables
