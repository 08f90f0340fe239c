"""What the application does: its pool, its protocol, its statements, its locks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from exam.drawn.model import Draft, Entry, Right


def _drawn(**choices: tuple[Any, ...]) -> Callable[[Draft], dict[str, Any]]:
    return lambda draft: {name: draft.chance.choice(given) for name, given in choices.items()}


def _swapped(old: str, new: str) -> Callable[[Draft], dict[str, Any]]:
    """Return the draw of another text of a statement."""
    return lambda draft: {"swaps": {draft.names.fill(old): draft.names.fill(new)}}


def _hidden(name: str, old: str, new: str, loads: tuple[str, ...]) -> Entry:
    """An expression around a column, so that the index on it cannot be used."""
    # Of partitions, one that cannot be left out is read as well.
    right = Right(findings=("unusable-index", "missing-index"), objects=("reason expression",))
    return Entry(name, "statement hides index", right, fault=_swapped(old, new), loads=loads)


def _late(name: str, statement: str) -> Entry:
    """A condition that the planner does not move into the subquery that it is on."""
    return Entry(
        name,
        "more than needed",
        Right(findings=("late-conditions",)),
        fault=_swapped("select * from {child} where id = :c;", statement),
        loads=("by-key",),
    )


ENTRIES = (
    Entry(
        "small-pool",
        "few connections",
        Right(findings=("client-pool",), keys=("pool_max",)),
        fault=_drawn(pool=(1, 2)),
        clients=(8, 16),
    ),
    Entry(
        "one-client",
        "few connections",
        Right(findings=("few-clients",), keys=("clients",)),
        fault=_drawn(clients=(1,)),
        loads=("update-parent", "insert-log", "insert-batch"),
        clients=(6, 12),
    ),
    Entry(
        "connection-each",
        "connections",
        Right(findings=("connection-per-transaction", "login-storm")),
        fault=lambda draft: {"reconnects": True},
        loads=("by-key", "update-parent"),
    ),
    Entry(
        "unprepared",
        "statements not prepared",
        Right(findings=("parse-plan",), keys=("load.protocol",)),
        fault=_drawn(protocol=("simple", "extended")),
        loads=("many-join", "join", "by-key"),
        protocols=("prepared",),
    ),
    Entry(
        "unprepared-partitions",
        "statements not prepared",
        Right(findings=("parse-plan",), keys=("load.protocol",)),
        fault=_drawn(protocol=("simple", "extended")),
        loads=("by-parent", "latest"),
        protocols=("prepared",),
        partitions=(100, 250),
    ),
    _hidden("added-nothing", "id = :c;", "id + 0 = :c;", ("by-key",)),
    _hidden("compared-as-text", "id = :c;", "id::text = (:c)::text;", ("by-key",)),
    _hidden("compared-as-number", "id = :c;", "id = (:c)::numeric;", ("by-key",)),
    _hidden("coalesced", "{parent_id} = :p;", "coalesce({parent_id}, 0) = :p;", ("by-parent",)),
    Entry(
        "one-row",
        "locks",
        Right(findings=("hot-row", "batch-update")),
        fault=_swapped(
            "set balance = balance + 1 where id = :p", "set balance = balance + 1 where id = 1"
        ),
        loads=("update-parent",),
        clients=(8, 16),
    ),
    Entry(
        "advisory-lock",
        "locks",
        Right(findings=("advisory-lock",)),
        fault=_swapped(
            "insert into {log} ({child_id}, what) values (:c, 'seen');",
            "select pg_advisory_lock(7);\ninsert into {log} ({child_id}, what) values (:c, 'seen');"
            "\nselect pg_advisory_unlock(7);",
        ),
        loads=("insert-log",),
        clients=(6, 16),
    ),
    Entry(
        "notified",
        "locks",
        Right(findings=("notify-lock",)),
        fault=_swapped(
            "insert into {log} ({child_id}, what) values (:c, 'seen');",
            "with seen as (insert into {log} ({child_id}, what) values (:c, 'seen') returning id)"
            " select pg_notify('queue', id::text) from seen;",
        ),
        loads=("insert-log",),
        clients=(8, 16),
    ),
    Entry(
        "row-held",
        "locks",
        Right(findings=("hot-row", "batch-update")),
        fault=_swapped(
            "update {parent} set balance = balance + 1 where id = :p;",
            "begin;\nupdate {parent} set balance = balance + 1 where id = 1 + :p % 3;\n"
            "select pg_sleep(0.003);\ncommit;",
        ),
        loads=("update-parent",),
        alone=True,
        clients=(8, 16),
    ),
    Entry(
        "pause-within",
        "pauses",
        Right(findings=("client-pauses", "idle-in-transaction", "held-connections")),
        fault=_swapped(
            "update {parent} set balance = balance + 1 where id = :p;",
            "begin;\nupdate {parent} set balance = balance + 1 where id = :p;\n\\sleep 4 ms\n"
            "commit;",
        ),
        loads=("update-parent",),
        alone=True,
    ),
    Entry(
        "large-results",
        "more than needed",
        Right(findings=("large-results",)),
        fault=_swapped(
            "select * from {child} where id = :c;",
            "select * from {child} where id between :c and :c + 2000;",
        ),
        loads=("by-key",),
    ),
    Entry(
        "pages-skipped",
        "more than needed",
        Right(findings=("skipped-rows",)),
        fault=_swapped(
            "select * from {child} where id = :c;",
            "select * from {child} order by id offset :c limit 10;",
        ),
        loads=("by-key",),
    ),
    _late(
        "materialized",
        "with all_rows as materialized (select * from {child}) select * from all_rows"
        " where id = :c;",
    ),
    _late(
        "numbered-view",
        "select * from (select *, row_number() over (order by id desc) as place from {child})"
        " as numbered where id = :c;",
    ),
    Entry(
        "checked-connection",
        "more than needed",
        Right(findings=("needless-statements",)),
        fault=_swapped(
            "select * from {child} where id = :c;",
            "select 1;\nselect * from {child} where id = :c;",
        ),
        loads=("by-key",),
    ),
    Entry(
        "row-by-row",
        "more than needed",
        Right(findings=("repeated-statements",)),
        fault=_swapped(
            "insert into {log} ({child_id}, what) select g, 'batch'"
            " from generate_series(:c, :c + 20) as g;",
            "begin;\n"
            + "".join(
                f"insert into {{log}} ({{child_id}}, what) values (:c + {row}, 'batch');\n"
                for row in range(21)
            )
            + "commit;",
        ),
        loads=("insert-batch",),
        alone=True,
    ),
    Entry(
        "temporary-table",
        "more than needed",
        Right(objects=("scratch",)),
        fault=_swapped(
            "select * from {child} where id = :c;",
            "begin;\ncreate temp table scratch on commit drop as"
            " select * from {child} where id = :c;\nselect * from scratch;\ncommit;",
        ),
        loads=("by-key",),
        protocols=("simple",),
        alone=True,
    ),
)
