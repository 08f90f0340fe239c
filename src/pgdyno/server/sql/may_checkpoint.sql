-- True if the role may execute CHECKPOINT: superusers, and from 15 on members of pg_checkpoint.
select rolsuper or exists (
           select from pg_roles c
            where c.rolname = 'pg_checkpoint' and pg_has_role(current_user, c.oid, 'usage'))
  from pg_roles
 where rolname = current_user
