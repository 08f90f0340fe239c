"""The costliest statement: its share of the time, the rows that it reads against those that it
returns, and the part of its plan in which the time goes.

A load of SQL by pgdyno has the times of its own statements. Of other loads pg_stat_statements
counts the time, or else the samples of sessions tell it. Rows returned are counted by
pg_stat_statements alone. Rows read are those of sequential scans of the tables that the statement
mentions, where no other statement mentions one of them; no view counts them by statement. Of a
statement that was executed to be explained, the plan has the rows that it returns, and the node, or
the trigger, that takes most of its time.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Literal

from msgspec import Struct

from pgdyno.facts.shapes import same_shape, shape
from pgdyno.numbers import counted, figure, percent
from pgdyno.plans.forms import node_words
from pgdyno.plans.tree import Plan, read_plan
from pgdyno.record import RunFile, StatementCount
from pgdyno.record.fileformat import CLIENT_BACKEND
from pgdyno.spec.sql_text import is_commit, mentions, on_one_line

Measure = Literal["clients", "server", "samples"]
_OF: dict[Measure, str] = {
    "clients": "the statements' time, as the clients measure it",
    "server": "the time that pg_stat_statements counts",
    "samples": "the sessions seen at work",
}
_LETTERS_MAX = 80
PART_SHARE_MIN = 0.3
"""Part of the time of an execution from which on a node or a trigger is named; ours."""


class CostliestPart(Struct, frozen=True):
    """The part of a plan that takes most of the time of one execution."""

    name: str
    """As "Seq Scan on public.item" or "trigger checks"."""
    ms: float
    """Without the nodes below it."""
    execution_ms: float
    rows: float
    """Rows that the statement returns."""

    @property
    def share(self) -> float:
        """Its share of the time of the execution."""
        return min(1.0, self.ms / self.execution_ms)

    @property
    def words(self) -> str:
        """Clause on it."""
        of = f"{percent(self.share)} of one execution's {figure(self.execution_ms)} ms"
        return f"{of} went into its {self.name}; it returns {counted(self.rows, 'row', 'rows')}"


class Costliest(Struct, frozen=True):
    """The statement with the largest share of the time."""

    statement: str
    share: float
    measure: Measure
    rows_read: float | None
    """By sequential scans in one execution; None: not known."""
    rows_returned: float | None
    """Or changed, by one execution; None: not counted."""
    part: CostliestPart | None
    """None: it was not executed to be explained, or no part takes ``PART_SHARE_MIN``."""

    @property
    def sentence(self) -> str:
        """Sentence on what is known of it and what would tell the rest, without a period."""
        text = " ".join(self.statement.split())
        text = text if len(text) <= _LETTERS_MAX else f"{text[: _LETTERS_MAX - 1]}…"
        return "; ".join((f"{percent(self.share)} of {_OF[self.measure]}: {text}", *self._rows()))

    def _rows(self) -> Iterator[str]:
        if is_commit(self.statement):
            yield "it reads no rows, its time is that of the commit"
            return
        if self.part is not None:
            yield self.part.words
            return
        read = None if self.rows_read is None else f"{figure(self.rows_read)} rows in whole tables"
        returned = None if self.rows_returned is None else f"{figure(self.rows_returned)} rows"
        if read and returned:
            yield f"one execution reads {read}, and returns or changes {returned}"
        elif read:
            yield f"one execution reads {read}; pg_stat_statements would tell how many it returns"
        elif returned:
            yield f"one execution returns or changes {returned}; EXPLAIN (ANALYZE) tells those read"
        else:
            yield "its rows: pg_stat_statements counts those returned, EXPLAIN (ANALYZE) those read"


def costliest(run: RunFile, slice_ids: Collection[int]) -> Costliest | None:
    """Return it; None where no statement was timed, counted or seen."""
    counts = run.statement_counts(slice_ids)
    times: dict[Measure, dict[str, float]] = {
        "clients": _timed(run, slice_ids),
        "server": _summed((each.statement, each.exec_ms) for each in counts),
        "samples": _seen(run, slice_ids),
    }
    measure = next((name for name, mine in times.items() if sum(mine.values()) > 0), None)
    if measure is None:
        return None
    spent = times[measure]
    text = max(spent, key=lambda each: spent[each])
    others = {each for mine in times.values() for each in mine if not _alike(each, text)}
    same = [each for each in counts if _alike(each.statement, text)]
    executions = _executions(run, slice_ids, text) or sum(each.calls for each in same)
    return Costliest(
        text,
        spent[text] / sum(spent.values()),
        measure,
        _read(run, slice_ids, text, others, executions),
        _returned(same),
        _part(run, slice_ids, text),
    )


def _timed(run: RunFile, slice_ids: Collection[int]) -> dict[str, float]:
    """Return the time of each statement by the clients; requests are none."""
    if run.run.spec.get("http"):
        return {}
    totals = run.statements(slice_ids)
    return _summed((each.statement, each.spent_ns) for each in totals)


def _seen(run: RunFile, slice_ids: Collection[int]) -> dict[str, float]:
    return _summed(
        (each.statement, each.average)
        for each in run.waits(slice_ids)
        if each.backend_type == CLIENT_BACKEND and each.state == "active" and each.statement
    )


def _summed(pairs: Iterator[tuple[str, float]]) -> dict[str, float]:
    """Return the sums by text; texts of one shape have one of them."""
    sums: dict[str, float] = {}
    texts: dict[str, str] = {}
    for text, value in pairs:
        name = texts.setdefault(shape(text), text)
        sums[name] = sums.get(name, 0.0) + value
    return sums


def _alike(one: str, other: str) -> bool:
    return same_shape(shape(one), shape(other))


def _executions(run: RunFile, slice_ids: Collection[int], text: str) -> int:
    return sum(each.done for each in run.statements(slice_ids) if _alike(each.statement, text))


def _read(
    run: RunFile,
    slice_ids: Collection[int],
    text: str,
    others: Collection[str],
    executions: int,
) -> float | None:
    """Return the rows that one execution reads in whole tables; None if others read these too."""
    tables = {str(row["relation"]) for row in run.samples("metric_table", slice_ids)}
    mine = sorted(each for each in tables if mentions(text, each))
    if not mine or not executions or any(mentions(each, name) for each in others for name in mine):
        return None
    rows = run.delta("metric_table", "seq_tup_read", slice_ids, where={"relation": mine})
    return None if rows is None else rows / executions


def _returned(same: Collection[StatementCount]) -> float | None:
    calls = sum(each.calls for each in same)
    return sum(each.rows for each in same) / calls if calls else None


def _part(run: RunFile, slice_ids: Collection[int], text: str) -> CostliestPart | None:
    """Return the part of the plan of a statement that takes most of its time, as it was executed
    beside the load."""
    texts = {each.place: each.statement for each in run.statements(slice_ids)}
    for row in run.statement_plans(slice_ids):
        if row.is_analyzed and row.plan is not None and _alike(texts.get(row.place, ""), text):
            return _part_of(read_plan(json.loads(row.plan)))
    return None


def _part_of(plan: Plan) -> CostliestPart | None:
    if not plan.execution_ms:
        return None
    times: dict[str, float] = {}
    parts = [(node_words(each, plan.wholes), each.own_ms or 0.0) for each in plan.nodes()]
    parts += [(f"trigger {each.constraint or each.name}", each.time_ms) for each in plan.triggers]
    for name, ms in parts:  # Scans of several partitions have one name.
        times[name] = times.get(name, 0.0) + ms
    name = max(times, key=lambda each: times[each])
    rows = plan.root.rows or 0.0
    found = CostliestPart(on_one_line(name), times[name], plan.execution_ms, rows)
    return found if found.share >= PART_SHARE_MIN else None
