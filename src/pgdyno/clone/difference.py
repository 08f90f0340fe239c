"""The differences between two captures: of one load at two times, or of a load and its clone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.clone.capture_file import (
    SHORTENED,
    Application,
    Capture,
    Source,
    Statement,
    Table,
)

DIFFERENCE_MIN = 0.1
"""Share from which on a figure differs: that of the tolerances of a clone."""
POINTS_MIN = 0.05
CALLS_MIN = 20.0
"""Executions, updates and scans over a period, from which on a figure is judged."""
WEIGHT_MIN = 0.01
"""Part of all time, WAL or pages, from which on those of one statement are judged."""
SHARE = "share"
"""Unit of a part of a whole."""
HOT_SHARE = "updates that are HOT"
_SAME_MIN = 0.5
"""Part of its calls that an application has in common with one that is taken for the same."""
_QUOTED = re.compile(r'("[^"]*")')
_PARAMETER = re.compile(r"\$\d+(?:::(?:text|bigint)\b)?")
_LIST = re.compile(r"\bin \(\?(?:\s*,\s*\?)*\s*\)")
Item = TypeVar("Item", Statement, Table)


class Figure(Struct, frozen=True):
    """A figure before and after."""

    name: str
    unit: str
    before: float
    after: float

    @property
    def ratio(self) -> float | None:
        """After divided by before; None where it was nothing."""
        return self.after / self.before if self.before else None

    @property
    def differs(self) -> bool:
        """True if it differs by ``DIFFERENCE_MIN`` or more, a share by ``POINTS_MIN``."""
        if self.unit == SHARE:
            return abs(self.after - self.before) >= POINTS_MIN
        least = DIFFERENCE_MIN * max(abs(self.before), abs(self.after))
        return abs(self.after - self.before) >= least > 0


class Changed(Struct, frozen=True):
    """A statement, a table or an application that both have, with the figures that differ."""

    name: str
    figures: tuple[Figure, ...]
    added: tuple[str, ...] = ()
    """Columns, keys and indexes of a table that only the second has."""
    removed: tuple[str, ...] = ()


class Setting(Struct, frozen=True):
    """A setting that differs; None: it has its default."""

    name: str
    before: str | None
    after: str | None


class Differences(Struct, frozen=True):
    """All that only one capture has, and the figures that differ."""

    transactions: Figure
    sessions: tuple[Figure, ...]
    """Number of sessions, those within a transaction, and their CPU time; the lowest and the
    highest rate."""
    waits: tuple[Figure, ...]
    """Shares of the time of sessions at work, by class of waits."""
    new_findings: tuple[str, ...]
    gone_findings: tuple[str, ...]
    settings: tuple[Setting, ...]
    new_applications: tuple[Application, ...]
    gone_applications: tuple[Application, ...]
    changed_applications: tuple[Changed, ...]
    statements: int
    """Statements that both have."""
    new_statements: tuple[Statement, ...]
    gone_statements: tuple[Statement, ...]
    rare_statements: int
    """Those that only one has, executed fewer than ``CALLS_MIN`` times: they may be in both."""
    changed_statements: tuple[Changed, ...]
    """Those that take the most time first."""
    light_statements: int
    """Those that differ, and have less than ``WEIGHT_MIN`` of the time, or of the WAL, of both."""
    tables: int
    new_tables: tuple[str, ...]
    gone_tables: tuple[str, ...]
    changed_tables: tuple[Changed, ...]


def differences(before: Capture, after: Capture) -> Differences:
    """Return the differences between two captures. Statements are the same if only the
    numbers of their parameters differ."""
    both, new, gone = _paired(before.statements, after.statements, lambda each: shape_of(each.text))
    tables, new_tables, gone_tables = _paired(
        before.tables, after.tables, lambda each: each.full_name
    )
    changed, light = _of_both_statements(before, after, both)
    new_often, gone_often = _often(after, new), _often(before, gone)
    changed_tables = (
        _of_tables(one, other, scans=is_scanned(before, one) and is_scanned(after, other))
        for one, other in tables
    )
    one, other = before.source, after.source
    applications, new_applications, gone_applications = _of_applications(before, after)
    return Differences(
        transactions=Figure("transactions", "/s", one.transactions_per_s, other.transactions_per_s),
        sessions=_differing((*_of_sources(one, other), *_of_courses(before, after))),
        waits=_differing(_of_shares(one.waits, other.waits)),
        new_findings=_beside(_findings(other), _findings(one)),
        gone_findings=_beside(_findings(one), _findings(other)),
        settings=_of_settings(before.settings, after.settings),
        new_applications=new_applications,
        gone_applications=gone_applications,
        changed_applications=applications,
        statements=len(both),
        new_statements=new_often,
        gone_statements=gone_often,
        rare_statements=len(new) + len(gone) - len(new_often) - len(gone_often),
        changed_statements=changed,
        light_statements=light,
        tables=len(tables),
        new_tables=tuple(each.full_name for each in new_tables),
        gone_tables=tuple(each.full_name for each in gone_tables),
        changed_tables=tuple(each for each in changed_tables if each is not None),
    )


def _paired(
    before: Sequence[Item], after: Sequence[Item], name: Callable[[Item], str]
) -> tuple[list[tuple[Item, Item]], list[Item], list[Item]]:
    """Return those of both, those of the second alone and those of the first alone."""
    earlier = {name(each): each for each in before}
    later = {name(each): each for each in after}
    return (
        [(earlier[key], each) for key, each in later.items() if key in earlier],
        [each for key, each in later.items() if key not in earlier],
        [each for key, each in earlier.items() if key not in later],
    )


def shape_of(text: str) -> str:
    """Return a statement with the same sign for each parameter, and for a list of them, without the
    types that a capture writes behind parameters, and in small letters but for quoted names."""
    parts = _QUOTED.split(text.replace(SHORTENED, ""))
    return "".join(each if each.startswith('"') else _folded(each) for each in parts)


def _folded(part: str) -> str:
    return _LIST.sub("in (?)", _PARAMETER.sub("?", part.lower()))


def _of_sources(one: Source, other: Source) -> Iterator[Figure]:
    yield Figure("sessions", "", one.sessions, other.sessions)
    yield Figure("sessions within a transaction", "", one.busy_sessions, other.busy_sessions)
    if one.cpu_ms is not None and other.cpu_ms is not None:
        yield Figure("CPU of a transaction", "ms", one.cpu_ms, other.cpu_ms)


def _of_courses(before: Capture, after: Capture) -> Iterator[Figure]:
    sides = [[each.transactions_per_s for each in side.course] for side in (before, after)]
    if all(sides):
        yield Figure("lowest rate of an interval", "/s", *map(min, sides))
        yield Figure("highest rate of an interval", "/s", *map(max, sides))


def _of_shares(
    one: Mapping[str, float] | None, other: Mapping[str, float] | None
) -> Iterator[Figure]:
    """Yield the shares of both, by their names; nothing if one side is not known."""
    if one is not None and other is not None:
        for name in dict.fromkeys([*one, *other]):
            yield Figure(name, SHARE, one.get(name, 0.0), other.get(name, 0.0))


def _findings(source: Source) -> list[str] | None:
    return None if source.findings is None else [each.id for each in source.findings]


def _beside(these: Sequence[str] | None, others: Sequence[str] | None) -> tuple[str, ...]:
    """Return those that the others are not; nothing if one side is not known."""
    if these is None or others is None:
        return ()
    return tuple(each for each in these if each not in others)


def _of_settings(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[Setting, ...]:
    return tuple(
        Setting(name, one.get(name), other.get(name))
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    )


def _of_applications(
    before: Capture, after: Capture
) -> tuple[tuple[Changed, ...], tuple[Application, ...], tuple[Application, ...]]:
    """Return the applications of both that differ, the new and the gone ones. They have no names:
    those are the same that execute the same statements for the most part."""
    if not (before.applications or after.applications):
        return (), (), ()
    sides = [each.applications or (each.all_sessions,) for each in (before, after)]
    mixes = [
        [_mix(capture, each) for each in side]
        for capture, side in zip((before, after), sides, strict=True)
    ]
    pairs = _most_alike(*mixes)
    both = (
        Changed(f"application {there + 1}", _differing(_of_sessions(sides[0][here], of)))
        for there, of in enumerate(sides[1])
        if (here := pairs.get(there)) is not None
    )
    return (
        tuple(each for each in both if each.figures),
        tuple(each for place, each in enumerate(sides[1]) if place not in pairs),
        tuple(each for place, each in enumerate(sides[0]) if place not in pairs.values()),
    )


def _mix(capture: Capture, application: Application) -> dict[str, float]:
    """Return the parts of an application's calls, by the shapes of statements."""
    calls: defaultdict[str, float] = defaultdict(float)
    for transaction, per_s in zip(capture.transactions, application.per_s, strict=True):
        for step in transaction.steps:
            calls[shape_of(capture.statements[step.statement].text)] += per_s * step.times
    total = sum(calls.values())
    return {shape: of / total for shape, of in calls.items()} if total else {}


def _most_alike(
    one: Sequence[Mapping[str, float]], other: Sequence[Mapping[str, float]]
) -> dict[int, int]:
    """Return the place of the most similar of one side, by places of the other, each used once."""
    shared = {
        (here, there): sum(min(part, second.get(name, 0.0)) for name, part in first.items())
        for here, first in enumerate(one)
        for there, second in enumerate(other)
    }
    found: dict[int, int] = {}
    for (here, there), part in sorted(shared.items(), key=lambda each: -each[1]):
        if part >= _SAME_MIN and there not in found and here not in found.values():
            found[there] = here
    return found


def _of_sessions(one: Application, other: Application) -> Iterator[Figure]:
    yield Figure("transactions", "/s", sum(one.per_s), sum(other.per_s))
    yield Figure("sessions", "", one.sessions, other.sessions)
    yield Figure("sessions within a transaction", "", one.busy_sessions, other.busy_sessions)


def per_s(statement: Statement, of: str) -> float:
    """Return a figure of a call for all calls in a second; 0 if it is not known."""
    return statement.calls_per_s * (getattr(statement, of) or 0.0)


def is_often(capture: Capture, statement: Statement) -> bool:
    """Return whether a statement was executed often enough to be judged."""
    return statement.calls_per_s * capture.source.seconds >= CALLS_MIN


def by_time(statements: Iterable[Statement]) -> list[Statement]:
    """Return the statements, those first that take the most time."""
    return sorted(statements, key=lambda each: -per_s(each, "ms"))


def _often(capture: Capture, statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """Return those that are executed often, those that take the most time first."""
    return tuple(by_time(each for each in statements if is_often(capture, each)))


def _of_both_statements(
    before: Capture, after: Capture, both: Sequence[tuple[Statement, Statement]]
) -> tuple[tuple[Changed, ...], int]:
    """Return the statements that differ and matter, and how many others differ."""
    one, other = before.source.transactions_per_s, after.source.transactions_per_s
    grown = other / one if one else 1.0
    heavy = {of: _heavy(before, of) | _heavy(after, of) for of in ("ms", "wal_bytes")}
    found, light = [], 0
    for pair in sorted(both, key=lambda pair: -per_s(pair[1], "ms")):
        name, shape = pair[0].text, shape_of(pair[0].text)
        figures = tuple(_of_statements(*pair, grown))
        kept = tuple(figure for of, figure in figures if any(shape in heavy[each] for each in of))
        found += [Changed(name, kept)] if kept else []
        light += bool(figures) and not kept
    return tuple(found), light


def _heavy(capture: Capture, of: str) -> set[str]:
    """Return the shapes of statements that are executed often, and have a part of the time, or of
    the WAL, that matters."""
    least = WEIGHT_MIN * sum(per_s(each, of) for each in capture.statements)
    return {
        shape_of(each.text)
        for each in capture.statements
        if is_often(capture, each) and 0 < least <= per_s(each, of)
    }


def _of_statements(
    one: Statement, other: Statement, grown: float
) -> Iterator[tuple[tuple[str, ...], Figure]]:
    """Yield the figures that differ, each with those of which a statement has a part that matters
    if it does. Calls differ if they have not ``grown`` as all transactions have."""
    calls = Figure("calls", "/s", one.calls_per_s, other.calls_per_s)
    if replace(calls, before=grown * calls.before).differs:
        yield ("ms", "wal_bytes"), calls
    for of, figure in (
        (("ms", "wal_bytes"), Figure("rows a call", "", one.rows, other.rows)),
        (("ms",), Figure("time of a call", "ms", one.ms, other.ms)),
        (("wal_bytes",), Figure("WAL of a call", "bytes", one.wal_bytes, other.wal_bytes)),
    ):
        if figure.differs:
            yield of, figure


def _differing(figures: Iterable[Figure]) -> tuple[Figure, ...]:
    return tuple(each for each in figures if each.differs)


def _of_tables(one: Table, other: Table, *, scans: bool) -> Changed | None:
    """Return the differences of a table, and whether it is scanned otherwise if its ``scans`` are
    enough to tell."""
    figures = _differing(
        [
            Figure("rows", "", one.rows, other.rows),
            Figure("size", "bytes", one.size_bytes, other.size_bytes),
            *_of_updates(one, other),
            *(_of_scans(one, other) if scans else ()),
        ]
    )
    before, after = _parts(one), _parts(other)
    added = tuple(each for each in after if each not in before)
    removed = tuple(each for each in before if each not in after)
    if not (figures or added or removed):
        return None
    return Changed(one.full_name, figures, added, removed)


def _of_updates(one: Table, other: Table) -> Iterator[Figure]:
    if one.hot_share is not None and other.hot_share is not None:
        yield Figure(HOT_SHARE, SHARE, one.hot_share, other.hot_share)


def _of_scans(one: Table, other: Table) -> Iterator[Figure]:
    """Yield the shares of scans, which show other plans at any rate."""
    for each in _of_shares(scan_shares(one), scan_shares(other)):
        yield replace(each, name=scans_by(f"the index on {each.name}" if each.name else ""))


def is_scanned(capture: Capture, table: Table) -> bool:
    """Return whether a table was scanned often enough to be judged."""
    return scanned(table) * capture.source.seconds >= CALLS_MIN


def scanned(table: Table) -> float:
    """Return the scans of a table in a second."""
    return sum(each.per_s for each in table.scans)


def scan_shares(table: Table) -> dict[str, float]:
    """Return the shares of the scans of a table by its indexes; '' for those of the whole."""
    total = scanned(table)
    return {each.index: each.per_s / total for each in table.scans} if total else {}


def scans_by(index: str) -> str:
    """Return the name of a figure of scans by an index; '' if the whole table is read."""
    return f"scans by {index}" if index else "scans of the whole table"


def _parts(table: Table) -> list[str]:
    """Return columns, keys, references and indexes in words."""
    return [
        *(f"column {each.name} {each.type}" for each in table.columns),
        *(f"key ({', '.join(each)})" for each in table.keys),
        *(f"reference ({', '.join(each.columns)}) to {each.table}" for each in table.references),
        *(f"index {each.sql}" for each in table.indexes),
        *table.triggers,
    ]
