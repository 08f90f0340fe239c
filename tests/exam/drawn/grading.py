"""Outcomes of draws: what pgdyno said of causes whose worth was measured.

| outcome | |
|---|---|
| right | a cause that is worth it stands first, with what undoes it; a healthy load has no alarm |
| partly | it is named later, or without what undoes it |
| unexplained | the verdict says that the limit is not known |
| wrong | anything else |
| false | what is worth it was cleared; a gain was promised that the pairs deny; a false alarm |
| not worth it | the cause is planted and costs little; nothing has to be said of it |
| disturbed, failed, not producible here | grades nothing |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from exam.drawn.answers import (
    Finding,
    Promise,
    denials,
    found,
    names,
    promises,
    undoes_exactly,
)
from exam.drawn.model import Fault, ServerFacts
from exam.drawn.truth import Truth

ALARMS = ("will fail", "limit", "costs")
GRADED = ("right", "partly", "unexplained", "wrong", "false")
COLUMNS = ("drawn", "worth it", *GRADED)
NOT_WORTH = "not worth it"


class Grade(Struct, frozen=True):
    """An outcome, and the reason for it."""

    outcome: str
    why: str = ""


def is_denied(promise: Promise, truth: Truth) -> bool:
    """Return whether the pairs deny a promise: the predicted interval lies above the measured one,
    or nothing was gained and the guess lies above it."""
    return promise.low > truth.high or (truth.ratio <= 1.0 and promise.ratio > truth.high)


def denied_promise(measured: Iterable[tuple[Promise, Truth]]) -> str | None:
    """Return a promise that the pairs deny, in words, or ``None``."""
    for promise, truth in measured:
        if is_denied(promise, truth):
            return (
                f"{promise.finding} promises {promise.ratio:.2f}x [{promise.low:.2f},"
                f" {promise.high:.2f}], measured {truth.ratio:.2f}x [{truth.low:.2f},"
                f" {truth.high:.2f}]"
            )
    return None


def of_healthy(findings: Sequence[Finding]) -> Grade:
    """Grade a load without causes."""
    alarms = [each["id"] for each in found(findings) if each["severity"] in ALARMS]
    return Grade("false", f"alarm: {', '.join(alarms)}") if alarms else Grade("right")


def of_end(ratio: float, least: float) -> Grade:
    """Grade the ratio of throughput at which an investigation ended, where ``least`` was asked."""
    why = f"ended at {ratio:.2f}x"
    return Grade("right", why) if ratio >= least else Grade("wrong", f"{why}, not {least:.2f}x")


def of_cause(
    fault: Fault,
    truth: Truth,
    others: Sequence[tuple[Fault, Truth]],
    findings: Sequence[Finding],
    verdict: str | None,
    *,
    kept: Iterable[tuple[Promise, Truth]] = (),
    held: bool = False,
) -> Grade:
    """Grade what was said of a cause; ``others`` are planted beside it, ``verdict`` is the ID, and
    ``kept`` are promises that were measured.

    Of two causes that are worth it, the one that is worth less may stand behind the other; and
    behind a finding whose promise, of as much, the pairs confirm. Where the rate is ``held`` in
    spite of them, none of them is a limit.
    """
    if fault.bait or held or not truth.worth_it:
        return Grade(NOT_WORTH)
    if cleared := [*denials(fault, findings)]:
        return Grade("false", f"cleared by {', '.join(cleared)}")
    made = found(findings)
    before = [other.right for other, worth in others if _is_as_much(worth, truth)]
    confirmed = {promise.finding for promise, worth in kept if _is_as_much(worth, truth)}
    own = [
        each
        for each in made
        if names(fault.right, each) or not (each["id"] in confirmed or _names_any(before, each))
    ]
    first = names(fault.right, own[0]) if own else ""
    if first == "undo" and verdict != "unexplained":
        return Grade("right", own[0]["id"])
    for each in made:
        if how := names(fault.right, each):
            rest = "" if how == "undo" else ", without what undoes it"
            return Grade("partly", f"{each['id']} at {made.index(each) + 1}{rest}")
    if verdict == "unexplained":
        return Grade("unexplained")
    return Grade("wrong", f"said {verdict}")


def of_causes(
    faults: Sequence[Fault],
    truths: Mapping[str, Truth],
    server: ServerFacts,
    findings: Sequence[Finding],
    verdict: str | None,
    *,
    promised: Sequence[tuple[Promise, Truth]],
    held: bool,
) -> list[tuple[Grade, str]]:
    """Grade what was said of each cause of a draw, and beside it return the outcome without regard
    to promises; one that the pairs deny makes the first cause false.

    ``truths`` are by entry, and ``promised`` are other promises that were measured.
    """
    grades = []
    for fault in faults:
        beside = [(each, truths[each.entry]) for each in faults if each is not fault]
        truth = truths[fault.entry]
        grades.append(of_cause(fault, truth, beside, findings, verdict, kept=promised, held=held))
    outcomes = [each.outcome for each in grades]
    if denied := denied_promise([*_of_undoing(faults, truths, server, findings), *promised]):
        grades[0] = Grade("false", denied)
    return [*zip(grades, outcomes, strict=True)]


def _of_undoing(
    faults: Sequence[Fault],
    truths: Mapping[str, Truth],
    server: ServerFacts,
    findings: Sequence[Finding],
) -> list[tuple[Promise, Truth]]:
    """Return the promises of undoing a cause, with what that is worth."""
    return [
        (promise, truths[fault.entry])
        for promise in promises(findings)
        for fault in faults
        if undoes_exactly(fault, promise.change, server)
    ]


def _is_as_much(worth: Truth, truth: Truth) -> bool:
    """Return whether another gain is worth it and may be as large as that of a cause."""
    return worth.worth_it and worth.high >= truth.low


def _names_any(rights: Iterable[Any], finding: Finding) -> bool:
    return any(names(right, finding) for right in rights)


def table(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the counts by kind of cause; ``healthy`` is one of them."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        for cause in row.get("causes") or [{"kind": "healthy", "outcome": row["outcome"]}]:
            of_kind = counts.setdefault(cause["kind"], Counter())
            of_kind["drawn"] += 1
            of_kind["worth it"] += bool(cause.get("worth_it"))
            of_kind[cause["outcome"]] += 1
    return {kind: dict(counts[kind]) for kind in sorted(counts)}


def lines(counts: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield the table."""
    width = max([5, *map(len, counts)])
    yield f"{'kind':<{width}}" + "".join(f"{name:>12}" for name in COLUMNS)
    for kind, of_kind in counts.items():
        yield f"{kind:<{width}}" + "".join(f"{of_kind.get(name, 0):>12}" for name in COLUMNS)
    total = Counter[str]()
    for of_kind in counts.values():
        total.update(of_kind)
    yield f"{'all':<{width}}" + "".join(f"{total[name]:>12}" for name in COLUMNS)
    rest = {name: n for name, n in total.items() if name not in (*COLUMNS, NOT_WORTH)}
    if rest:
        yield "not graded: " + ", ".join(f"{n} {name}" for name, n in rest.items())
