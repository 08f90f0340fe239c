"""Grades: how far a clone is from its source, and whether that is within the tolerances."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import median

from msgspec import Struct

from exam.captures.measuring import Executed, Slice
from exam.captures.model import POINTS, RATIO, SHARE_MIN, Unit

_EVEN = 1e-9
_UNLIKE_MAX = 12
"""Statements that are listed."""


class Figure(Struct, frozen=True):
    """A figure of both sides, as the median of the pairs; WAL as that of all slices together."""

    name: str
    unit: Unit
    source: float | None
    clone: float | None
    difference: float | None
    """Clone divided by source; of shares the clone's less the source's. None: neither has any."""
    low: float | None
    high: float | None
    """Of the pairs."""
    tolerance: float
    alike: bool


class UnlikeStatement(Struct, frozen=True):
    """A statement that is not alike on both sides."""

    text: str
    part: float
    """Of the calls, or of the time."""
    source: str
    clone: str
    before: str
    """Of the source while it was captured."""


class Alike(Struct, frozen=True):
    """Statements that are alike: what part of the source's they are, and those that are not."""

    name: str
    statements: int
    alike_statements: int
    share: float
    own_share: float
    """Of the source itself while it was captured, compared with the source afterwards."""
    unlike: tuple[UnlikeStatement, ...]
    alike: bool


def figures(pairs: Sequence[tuple[Slice, Slice]]) -> list[Figure]:
    """Return the figures of slices of the source, each with the clone's next to it."""

    def ratio(name: str, unit: Unit, values: Sequence[tuple[float, float]]) -> Figure:
        both = [clone / max(_EVEN, source) for source, clone in values]
        return _figure(name, unit, _medians(values, both), both, RATIO, 1.0)

    return [
        ratio("throughput", "/s", [(one.tps, other.tps) for one, other in pairs]),
        ratio("CPU of a transaction", "ms", [(one.cpu_ms, other.cpu_ms) for one, other in pairs]),
        _wal(pairs),
        _hot(pairs),
    ]


def _wal(pairs: Sequence[tuple[Slice, Slice]]) -> Figure:
    """Return the WAL of a transaction. Images of pages come in bursts behind a checkpoint, so that
    one side may write most of its in one slice."""

    def of_all(slices: Sequence[Slice]) -> float:
        return sum(each.wal_bytes * each.tps for each in slices) / sum(each.tps for each in slices)

    sources, clones = zip(*pairs, strict=True)
    ratios = [other.wal_bytes / max(_EVEN, one.wal_bytes) for one, other in pairs]
    source, clone = of_all(sources), of_all(clones)
    middle = source, clone, clone / max(_EVEN, source)
    return _figure("WAL of a transaction", "bytes", middle, ratios, RATIO, 1.0)


def _hot(pairs: Sequence[tuple[Slice, Slice]]) -> Figure:
    sides = [(one.hot_share, other.hot_share) for one, other in pairs]
    values = [(one, other) for one, other in sides if one is not None and other is not None]
    name: str = "updates that are HOT"
    if not values:
        is_same = all((one is None) == (other is None) for one, other in sides)
        return Figure(name, "share", None, None, None, None, None, POINTS, is_same)
    differences = [clone - source for source, clone in values]
    return _figure(name, "share", _medians(values, differences), differences, POINTS, 0.0)


def _medians(
    values: Sequence[tuple[float, float]], differences: Sequence[float]
) -> tuple[float, float, float]:
    return (
        median(source for source, _ in values),
        median(clone for _, clone in values),
        median(differences),
    )


def _figure(
    name: str,
    unit: Unit,
    middle: tuple[float, float, float],
    differences: Sequence[float],
    tolerance: float,
    same: float,
) -> Figure:
    """Return a figure of the pairs' differences, with those of source and clone, and their
    difference, that stand for all."""
    source, clone, difference = middle
    return Figure(
        name=name,
        unit=unit,
        source=source,
        clone=clone,
        difference=difference,
        low=min(differences),
        high=max(differences),
        tolerance=tolerance,
        alike=abs(difference - same) <= tolerance,
    )


def rows_alike(
    source: Mapping[str, Executed], clone: Mapping[str, Executed], before: Mapping[str, Executed]
) -> Alike:
    """Return the statements whose calls have as many rows, by their part of the source's calls.
    ``before`` are the source's while it was captured."""
    calls = sum(each.calls for each in source.values())
    parts = {shape: each.calls / calls for shape, each in source.items()}
    alike, own = (
        {shape for shape, each in source.items() if _is_near(each, others.get(shape))}
        for others in (clone, before)
    )
    unlike = [
        UnlikeStatement(
            each.text, parts[shape], *(_rows(of.get(shape)) for of in (source, clone, before))
        )
        for shape, each in source.items()
        if shape not in alike
    ]
    return _alike("rows of a call", parts, unlike, own)


def _is_near(one: Executed, other: Executed | None) -> bool:
    return other is not None and abs(one.rows - other.rows) <= RATIO * max(one.rows, other.rows)


def _rows(statement: Executed | None) -> str:
    return "not executed" if statement is None else f"{statement.rows:.3g} rows"


def plans_alike(
    source: Mapping[str, Executed],
    shapes: Mapping[str, tuple[str, str]],
    before: Mapping[str, Executed],
) -> Alike:
    """Return the statements whose plans have the same shapes, by their part of the source's time.

    ``shapes`` are those of both sides; a statement that is not among them is not captured.
    ``before`` are the source's while it was captured.
    """
    time_ms = sum(each.ms for each in source.values())
    parts = {shape: each.ms / time_ms for shape, each in source.items()}
    unlike = []
    for shape, each in source.items():
        one, other = shapes.get(shape, ("", "not captured"))
        if one != other:
            was = "executed" if shape in before else "not executed"
            unlike.append(UnlikeStatement(each.text, parts[shape], one, other, was))
    return _alike("plans", parts, unlike, before.keys())


def _alike(
    name: str, parts: Mapping[str, float], unlike: Sequence[UnlikeStatement], own: Collection[str]
) -> Alike:
    share = 1.0 - sum(each.part for each in unlike)
    return Alike(
        name=name,
        statements=len(parts),
        alike_statements=len(parts) - len(unlike),
        share=share,
        own_share=sum(part for shape, part in parts.items() if shape in own),
        unlike=tuple(sorted(unlike, key=lambda each: -each.part)[:_UNLIKE_MAX]),
        alike=share >= SHARE_MIN,
    )
