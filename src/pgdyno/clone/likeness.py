"""The likeness of a clone and its source, figure by figure, from a capture of each.

A figure is alike within a tenth, a share within five points. Of statements and tables only those
are judged that enough of the load is about to know them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from pgdyno.clone.capture_file import SHORTENED, Capture, Statement, Table
from pgdyno.clone.difference import (
    CALLS_MIN,
    DIFFERENCE_MIN,
    HOT_SHARE,
    POINTS_MIN,
    SHARE,
    WEIGHT_MIN,
    by_time,
    is_often,
    is_scanned,
    per_s,
    scan_shares,
    scanned,
    scans_by,
    shape_of,
)

Kind = Literal["errors", "data", "performance"]
KINDS: tuple[Kind, ...] = ("errors", "data", "performance")
Verdict = Literal["alike", "unlike", "unknown"]
_ORDER: Mapping[Verdict, int] = {"unlike": 0, "alike": 1, "unknown": 2}
FAILED_SHARE_MAX = 0.001
"""Transactions that may fail: at least 99.9 % of statements that write do what they did."""
TIME_SHARE_MIN = 0.95
"""Part of the statements' time that is in plans that are alike."""
_PAGE_BYTES = 8192
_OF_TRANSACTION = (
    ("WAL of a transaction", "bytes", "wal_bytes"),
    ("WAL records of a transaction", "", "wal_records"),
    ("pages read by a transaction", "", "pages"),
    ("pages dirtied by a transaction", "", "pages_dirtied"),
)
_OF_CALL = (("WAL of a call", "bytes", "wal_bytes"), ("pages of a call", "", "pages"))
"""Name, unit and field of figures of all statements together, and of each."""
_FEW = "executed too rarely"
_MISSING = "not executed by the clone"


class Compared(Struct, frozen=True):
    """A figure of the source beside the clone's."""

    kind: Kind
    name: str
    of: str
    """The statement or table; '' for the whole load."""
    unit: str
    source: float | str | None
    clone: float | str | None
    verdict: Verdict
    why: str = ""
    """Reason for which it is not known."""
    ratio: float | None = None
    """The clone's divided by the source's; null for shares and texts."""
    points: float | None = None
    """Percentage points between two shares."""


class Failures(Struct, frozen=True):
    """Transactions of the clone that failed in one way."""

    count: int
    words: str
    statement: str


class Likeness(Struct, frozen=True):
    """All figures, the unlike ones first."""

    is_alike: bool
    judged: int
    unlike: int
    """Figures that are judged, and unlike."""
    done: int
    failed: int
    """Transactions of the clone."""
    failures: tuple[Failures, ...]
    """The most frequent ones of those that failed."""
    compared: tuple[Compared, ...]


def likeness(
    source: Capture,
    clone: Capture,
    *,
    clients: int,
    done: int,
    failed: int,
    failures: Sequence[Failures] = (),
) -> Likeness:
    """Return the likeness of a clone whose load has had so many clients."""
    found = [
        *_errors(source, clone, done, failed),
        *_data(source, clone),
        *_performance(source, clone, same_clients=clients == max(1, source.source.sessions)),
    ]
    found.sort(key=lambda each: (_ORDER[each.verdict], KINDS.index(each.kind)))
    unlike = sum(each.verdict == "unlike" for each in found)
    judged = sum(each.verdict != "unknown" for each in found)
    return Likeness(not unlike, judged, unlike, done, failed, tuple(failures), tuple(found))


def _number(
    kind: Kind,
    name: str,
    source: float | None,
    clone: float | None,
    *,
    of: str = "",
    unit: str = "",
    why: str = "",
) -> Compared:
    """Return two numbers, alike within a tenth. ``why`` says that they cannot be compared."""
    if source is None or clone is None or why:
        why = why or _unknown_of(source, clone)
        return Compared(kind, name, of, unit, source, clone, "unknown", why)
    most = max(abs(source), abs(clone))
    differs = most > 0 and abs(source - clone) >= DIFFERENCE_MIN * most
    ratio = clone / source if source else None
    verdict: Verdict = "unlike" if differs else "alike"
    return Compared(kind, name, of, unit, source, clone, verdict, ratio=ratio)


def _share(
    kind: Kind, name: str, source: float | None, clone: float | None, *, of: str = ""
) -> Compared:
    """Return two shares, alike within some points."""
    if source is None or clone is None:
        why = _unknown_of(source, clone)
        return Compared(kind, name, of, SHARE, source, clone, "unknown", why)
    points = round(clone - source, 4)
    verdict: Verdict = "unlike" if abs(points) >= POINTS_MIN else "alike"
    return Compared(kind, name, of, SHARE, source, clone, verdict, points=100 * points)


def _unknown_of(source: object, clone: object) -> str:
    return "not known of the source" if source is None else "not known of the clone"


def _errors(source: Capture, clone: Capture, done: int, failed: int) -> Iterator[Compared]:
    share = failed / (done + failed) if done + failed else 0.0
    verdict: Verdict = "unlike" if share > FAILED_SHARE_MAX or not done else "alike"
    yield Compared(
        "errors", "transactions that fail", "", SHARE, 0.0, share, verdict, points=100 * share
    )
    there = {shape_of(each.text) for each in clone.statements}
    for each in by_time(source.statements):
        # The clone's statements are executed as often; one that is rare may miss its time.
        if shape_of(each.text) in there:
            continue
        expected = is_often(clone, each)
        yield Compared(
            "errors",
            "calls",
            each.text,
            "/s",
            each.calls_per_s,
            0.0,
            "unlike" if expected else "unknown",
            _MISSING if expected else _FEW,
        )


def _pairs(source: Capture, clone: Capture) -> list[tuple[Statement, Statement]]:
    """Return the statements that both execute often enough: with lists, as far as both have
    them, and with single values."""
    there = {shape_of(each.text): each for each in clone.statements}
    exactly = {_shape_with_list(each): each for each in clone.statements}
    both = (
        (each, exactly.get(_shape_with_list(each)) or there[shape_of(each.text)])
        for each in by_time(source.statements)
        if shape_of(each.text) in there
    )
    return [(one, other) for one, other in both if is_often(source, one) and is_often(clone, other)]


def _shape_with_list(statement: Statement) -> tuple[str, bool]:
    return shape_of(statement.text), SHORTENED in statement.text


def _data(source: Capture, clone: Capture) -> Iterator[Compared]:
    sides = (source, clone)
    for name, unit, of in _OF_TRANSACTION:
        why = ""
        if of == "wal_bytes":
            images = [_of_transaction(each, "wal_images") for each in sides]
            why = _other_images(images, [_of_transaction(each, of) for each in sides])
        values = (_of_transaction(each, of) for each in sides)
        yield _number("data", name, *values, unit=unit, why=why)
    pairs = _pairs(source, clone)
    for one, other in pairs:
        yield _number("data", "rows of a call", one.rows, other.rows, of=one.text)
    for name, unit, of in _OF_CALL:
        total = sum(per_s(one, of) for one in source.statements)
        for one, other in pairs:
            if total and per_s(one, of) >= WEIGHT_MIN * total:
                both = (one, other)
                why = ""
                if of == "wal_bytes":
                    why = _other_images([e.wal_images for e in both], [e.wal_bytes for e in both])
                values = (getattr(each, of) for each in both)
                yield _number("data", name, *values, of=one.text, unit=unit, why=why)
    yield from _updates(source, clone)


def _updates(source: Capture, clone: Capture) -> Iterator[Compared]:
    tables = {each.full_name: each for each in clone.tables}
    for table in sorted(source.tables, key=lambda each: -each.updates_per_s):
        often = table.updates_per_s * source.source.seconds >= CALLS_MIN
        if table.hot_share is not None and often:
            other = tables.get(table.full_name)
            share = other.hot_share if other else None
            yield _share("data", HOT_SHARE, table.hot_share, share, of=table.full_name)


def _other_images(images: Sequence[float | None], wal_bytes: Sequence[float | None]) -> str:
    """Return why the WAL of two sides cannot be compared; '' if full-page images are as many, or
    are little of it."""
    both = list(zip(images, wal_bytes, strict=True))
    if any(count is None or not whole for count, whole in both):
        return ""
    shares = [_PAGE_BYTES * (count or 0.0) / (whole or 1.0) for count, whole in both]
    least, most = sorted(count or 0.0 for count in images)
    if max(shares) < DIFFERENCE_MIN or least >= (1.0 - DIFFERENCE_MIN) * most:
        return ""
    one, other = (f"{count or 0.0:.2g}" for count in images)
    return f"full-page images differ ({one} and {other}): checkpoints began at other times"


def _of_transaction(capture: Capture, of: str) -> float | None:
    """Return the sum over all statements, for a transaction; None if it is not known."""
    tps = capture.source.transactions_per_s
    if tps <= 0 or any(getattr(each, of) is None for each in capture.statements):
        return None
    return sum(per_s(each, of) for each in capture.statements) / tps


def _performance(source: Capture, clone: Capture, *, same_clients: bool) -> Iterator[Compared]:
    one, other = source.source, clone.source
    calls = (sum(each.calls_per_s for each in side.statements) for side in (source, clone))
    for name, values in (
        ("transactions", (one.transactions_per_s, other.transactions_per_s)),
        ("statements", calls),
    ):
        why = "" if same_clients else "the clone has another number of clients"
        yield _number("performance", name, *values, unit="/s", why=why)
    yield _number("performance", "CPU of a transaction", one.cpu_ms, other.cpu_ms, unit="ms")
    yield from _plans(source, clone)
    waits = {**(one.waits or {}), **(other.waits or {})}
    if one.waits is None or other.waits is None:
        yield _share("performance", "waits", None, None)
        waits = {}
    for name in waits:
        shares = ((each.waits or {}).get(name, 0.0) for each in (one, other))
        yield _share("performance", "sessions at work", *shares, of=name)
    yield _first_finding(source, clone)


def _first_finding(source: Capture, clone: Capture) -> Compared:
    name, one, other = "first finding", _first(source), _first(clone)
    if one is None or other is None:
        why = _unknown_of(one, other)
        return Compared("performance", name, "", "", one, other, "unknown", why)
    verdict: Verdict = "alike" if one == other else "unlike"
    return Compared("performance", name, "", "", one, other, verdict)


def _first(capture: Capture) -> str | None:
    """Return the id of the first finding, '' if there is none; None if it is not known."""
    found = capture.source.findings
    return None if found is None else next((each.id for each in found), "")


def _plans(source: Capture, clone: Capture) -> Iterator[Compared]:
    """Yield the scans of tables that differ, and the part of the statements' time that is in
    statements all of whose tables are scanned alike."""
    name = "time in statements with the same scans"
    tables = {each.full_name: each for each in clone.tables}
    seen = [
        (each, tables[each.full_name])
        for each in sorted(source.tables, key=lambda each: -scanned(each))
        if each.full_name in tables and is_scanned(source, each)
    ]
    if not seen:
        why = _unknown_of(None, None)
        yield Compared("performance", name, "", SHARE, 1.0, None, "unknown", why)
        return
    unlike = []
    for one, other in seen:
        shares = [scan_shares(each) for each in (one, other)]
        for index in dict.fromkeys([*shares[0], *shares[1]]):
            of = f"{one.full_name} ({index})" if index else one.full_name
            scans = scans_by("this index" if index else "")
            each = _share("performance", scans, *(s.get(index, 0.0) for s in shares), of=of)
            if each.verdict == "unlike":
                unlike.append(one)
                yield each
    share = _time_outside(source, unlike)
    verdict: Verdict = "alike" if share >= TIME_SHARE_MIN else "unlike"
    points = 100 * (share - 1.0)
    yield Compared("performance", name, "", SHARE, 1.0, share, verdict, points=points)


def _time_outside(capture: Capture, tables: Collection[Table]) -> float:
    """Return the part of the statements' time in those that name none of these tables."""
    time = {each.text: each.calls_per_s * each.ms for each in capture.statements}
    inside = (each for each in capture.statements if any(_names(each, table) for table in tables))
    total = sum(time.values())
    return 1.0 - sum(time[each.text] for each in inside) / total if total else 1.0


def _names(statement: Statement, table: Table) -> bool:
    if any(each.table == table.full_name for each in statement.parameters):
        return True
    return (
        re.search(rf"(?<!\w){re.escape(table.name)}(?!\w)", statement.text, re.IGNORECASE)
        is not None
    )
