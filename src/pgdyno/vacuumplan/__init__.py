"""A plan for autovacuum from measured rates: ``planning`` looks, ``_advising`` judges."""
