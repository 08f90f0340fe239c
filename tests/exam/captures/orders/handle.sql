\set customer random(1, 5000)
\set state random_text(4)
begin;
select id, placed, details from orders where customer = :customer order by placed desc limit 1 for update \gset
update orders set state = :state, details = details || jsonb_build_object('handled', :state::text)
 where id = :id and placed = :placed;
select owed_by(:customer);
commit;
