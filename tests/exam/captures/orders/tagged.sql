\array tags 1 text_of(random(1, 400), 8)
select id, placed, state, details ->> 'channel' from orders where tags @> :tags limit 50;
