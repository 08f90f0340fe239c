\set customer random(1, 5000)
\set net random(100, 99999)
\set note random_text(64)
\array tags 2 text_of(random(1, 400), 8)
begin;
select email from customers where id = :customer;
insert into orders (customer, details, tags, net)
values (:customer, jsonb_build_object('channel', 'web', 'note', :note::text), :tags, :net);
update customers set orders = orders + 1 where id = :customer;
commit;
