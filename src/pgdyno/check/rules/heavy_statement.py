"""A kind of statement that makes most of the work.

Trigger: statements of one shape take at least ``TIME_SHARE`` of the time of all statements, write
that share of the WAL, or read and write that share of the blocks, by pg_stat_statements; and all
statements together kept at least ``SESSIONS_MIN`` sessions at work on average since its counters
began, ``COUNTED_S_MIN`` or more ago. Threshold: ours; what is done about any other statement
changes less than half. It is minor: it says where to look first.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._shapes import Shape, shapes
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Skip

TIME_SHARE = 0.5
SESSIONS_MIN = 0.5
COUNTED_S_MIN = 600.0
_WHAT = {"exec_ms": "time", "wal_bytes": "WAL", "blocks": "blocks read and written"}


def examine(sight: Sight) -> Fault | Fine:
    """Examine the shares of each shape."""
    rows = sight.rows("statement")
    counted_s = sight.row("statement_info")["counters_s"]
    if not rows or (counted_s or 0.0) < COUNTED_S_MIN:
        raise Skip("no statement was counted, or the counters are too young")
    sessions = rows[0]["exec_ms_total"] / 1000 / counted_s
    bar = f"at least {percent(TIME_SHARE)}"
    found: dict[str, tuple[Shape, float]] = {}
    for column, what in _WHAT.items():
        total = rows[0][f"{column}_total"] or 0.0
        most = max(shapes(sight), key=lambda each: getattr(each, column))
        if total > 0 and getattr(most, column) >= TIME_SHARE * total:
            found[what] = most, getattr(most, column) / total
    evidence = [measured("sessions at work, on average", sessions, "count",
                         f"at least {SESSIONS_MIN:g}")]  # fmt: skip
    for what, (shape, share) in found.items():
        evidence += [
            measured(f"share of the {what}", share, "share", bar),
            measured("statement", shape.text, ""),
        ]
    if not found or sessions < SESSIONS_MIN:
        return Fine("no kind of statement makes most of the work", evidence)
    (what, (shape, share)), *_ = found.items()
    each_ms = shape.exec_ms / shape.calls
    return Fault(
        sentence=(
            f"one statement makes {percent(share)} of the {what}, {figure(each_ms)} ms for each of"
            f" {figure(shape.calls)} calls: {shape.text}"
        ),
        severity="minor",
        confidence=0.8,
        evidence=evidence,
        advice="EXPLAIN (ANALYZE, BUFFERS, WAL) with its usual values, where it may be executed",
    )


RULE = Rule(
    id="heavy-statement",
    looks=("statement", "statement_info"),
    false_positives="a job that was run once and is over",
    examine=examine,
)
