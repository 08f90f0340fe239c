"""The planner's statistics: never made, made too early, or useless; and tables full of holes."""

from __future__ import annotations

from exam.drawn.model import Entry, Right

_LOADS = ("skewed", "join-by-kind", "by-kind", "by-parent")
_RIGHT = Right(commands=("analyze",), objects=("{child}", "public.{child}"))
_FORGET = (
    "alter table {child} set (autovacuum_enabled = off)",
    "delete from pg_catalog.pg_statistic where starelid = '{child}'::regclass",
)


def _unmade(name: str, pages: str) -> Entry:
    return Entry(
        name,
        "statistics",
        _RIGHT,
        plant=(
            *_FORGET,
            f"update pg_catalog.pg_class set {pages} where oid = '{{child}}'::regclass",
            "select pg_stat_reset_single_table_counters('{child}'::regclass)",
        ),
        undo=("analyze {child}", "alter table {child} reset (autovacuum_enabled)"),
        loads=_LOADS,
        partitions=(0, 0),
    )


ENTRIES = (
    _unmade("never-analyzed", "relpages = 0, reltuples = -1"),
    _unmade("analyzed-when-empty", "relpages = 0, reltuples = 0"),
    _unmade("analyzed-when-small", "relpages = 1, reltuples = 2"),
    Entry(
        "no-target",
        "statistics",
        _RIGHT,
        plant=(
            "alter table {child} alter column state set statistics 0",
            "alter table {child} alter column {kind} set statistics 0",
            "delete from pg_catalog.pg_statistic where starelid = '{child}'::regclass",
            "analyze {child}",
        ),
        undo=(
            "alter table {child} alter column state set statistics -1",
            "alter table {child} alter column {kind} set statistics -1",
            "analyze {child}",
        ),
        loads=("skewed", "join-by-kind", "by-kind"),
        partitions=(0, 0),
    ),
    Entry(
        "bloated",
        "dead rows",
        Right(commands=("vacuum full", "cluster")),
        plant=(
            "alter table {small} set (autovacuum_enabled = off)",
            "do $$ begin for i in 1..400 loop update {small} set label = label; end loop; end $$",
            "vacuum (truncate off) {small}",
        ),
        undo=(
            "vacuum full {small}",
            "analyze {small}",
            "alter table {small} reset (autovacuum_enabled)",
        ),
        loads=("small-scan",),
        alone=True,
    ),
    Entry(
        "low-fillfactor",
        "dead rows",
        Right(commands=("reset (fillfactor)",), findings=("bloated-table",)),
        plant=("alter table {child} set (fillfactor = 10)", "vacuum full {child}"),
        undo=("alter table {child} reset (fillfactor)", "vacuum full {child}"),
        loads=("most-rows",),
        partitions=(0, 0),
        alone=True,
    ),
    Entry(
        "wrong-distinct",
        "statistics",
        _RIGHT,
        plant=(
            "alter table {child} alter column {kind} set (n_distinct = 1)",
            "alter table {child} alter column {parent_id} set (n_distinct = 1)",
            "analyze {child}",
        ),
        undo=(
            "alter table {child} alter column {kind} reset (n_distinct)",
            "alter table {child} alter column {parent_id} reset (n_distinct)",
            "analyze {child}",
        ),
        loads=("join-by-kind", "by-kind", "by-parent", "join"),
        partitions=(0, 0),
    ),
)
