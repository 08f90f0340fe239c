-- Seconds since the oldest session that is neither pgdyno's own nor Patroni's began.
select extract(epoch from clock_timestamp() - min(backend_start))
from pg_stat_activity
where backend_type = 'client backend' and application_name <> 'pgdyno control'
  and application_name not like 'Patroni%';
