"""Databases, tables and indexes, by the catalogs and by counters: no file is looked at."""

from __future__ import annotations

from pgdyno.looks.look import Look

LOOKS = (
    Look("database", "databases"),
    Look("relation_total", "the size of this database"),
    Look("table", "tables"),
    Look("autovacuum_off", "tables without autovacuum"),
    Look("unused_index", "indexes that are not read"),
    Look("invalid_index", "invalid indexes"),
    Look("duplicate_index", "duplicate indexes"),
    Look("prefix_index", "indexes that are the beginning of others"),
    Look("toast", "values stored out of line"),
)
