"""The cost of connections beyond the best size: throughput, and the parts of the response time that
grow with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pgdyno import numbers
from pgdyno._engine import student_t_quantile
from pgdyno.diagnose import Diagnosis, Finding
from pgdyno.facts.budget import part_words
from pgdyno.results.common import Verdict
from pgdyno.results.pool import Beyond, TimePart
from pgdyno.search._curve import Curve, on_connection_ms
from pgdyno.search._sizes import KneeEstimate
from pgdyno.stats.levels import FREEDOM_ASSUMED

QUEUES = ("pool wait", "queue", "between", "connecting")
"""Parts of the response time with the wait for a connection, which more connections shorten: that
for a pooler's is between client and server, or part of connecting."""
PART_MIN = 0.15
"""Share of the growth from which a part is named."""
NAMED_MAX = 3


def beyond_best(
    found: KneeEstimate,
    curve: Curve,
    best: Diagnosis | None,
    larger: Diagnosis | None,
    pools: int = 1,
) -> Beyond | None:
    """Return the cost of the largest size measured against the best; None if the best is the
    largest. The diagnoses are of the slices at the two; the size is that of each of the pools."""
    size = found.levels.points[-1]
    if size <= found.knee:
        return None
    ratio, low, high = _ratio(found, size)
    more = pools * (size - found.knee)
    service_ms = on_connection_ms(curve.points[size], pools * size)
    longer_ms = service_ms - on_connection_ms(curve.points[found.knee], pools * found.knee)
    parts = _parts(best, larger)
    return Beyond(
        size=size,
        throughput_ratio=numbers.rounded(ratio),
        ci95=(numbers.rounded(low), numbers.rounded(high)),
        tps_per_connection=_three((found.level(size) - found.level(found.knee)) / more),
        service_ms_per_connection=_three(longer_ms / more),
        parts=parts,
        sentence=_sentence(found, size, (ratio, low, high), longer_ms, parts, pools),
    )


def limit_beyond(beyond: Beyond | None, larger: Diagnosis | None, why_no_larger: str) -> Verdict:
    """Return the finding that explains the part that grows most, and what all of it goes to."""
    if beyond is None:
        return Verdict(finding=None, sentence=f"no larger size was measured: {why_no_larger}")
    grown = _grown(beyond.parts)
    if not grown:
        return Verdict(finding=None, sentence=beyond.sentence)
    finding = _finding_of(grown[0], larger)
    return Verdict(
        finding=finding.id if finding else None,
        sentence=f"{beyond.sentence}{f'; {finding.sentence}' if finding else ''}",
    )


def _finding_of(part: TimePart, diagnosis: Diagnosis | None) -> Finding | None:
    """Return the finding that explains a part, the highest in rank."""
    found = diagnosis.findings if diagnosis else []
    known = (each for each in found if each.status == "found" and each.id in part.findings)
    return next(known, None)


def _ratio(found: KneeEstimate, size: int) -> tuple[float, float, float]:
    """Return the throughput at a size over that at the best one, with its interval."""
    points = found.levels.points
    a, b = points.index(found.knee), points.index(size)
    log = float(found.levels.logs[b] - found.levels.logs[a])
    quantile = student_t_quantile(found.levels.freedom + FREEDOM_ASSUMED, 0.975)
    half = quantile * found.levels.error_of_difference(a, b)
    return math.exp(log), math.exp(log - half), math.exp(log + half)


def _parts(best: Diagnosis | None, larger: Diagnosis | None) -> tuple[TimePart, ...]:
    """Return the parts of both budgets, those that grow most first."""
    if best is None or larger is None or best.budget is None or larger.budget is None:
        return ()
    was: Mapping[str, float] = {str(k): v for k, v in best.budget.parts_ms.items()}
    named = {part.part: part for part in larger.parts}
    parts = [
        TimePart(
            part=part,
            words=part_words(part),
            best_ms=round(was.get(part, 0.0), 4),
            beyond_ms=round(ms, 4),
            findings=named[part].findings
            if part in named and named[part].status == "explained"
            else (),
        )
        for part, ms in larger.budget.parts_ms.items()
        if ms > 0 or was.get(part, 0.0) > 0
    ]
    return tuple(sorted(parts, key=lambda each: each.best_ms - each.beyond_ms))


def _grown(parts: Sequence[TimePart]) -> list[TimePart]:
    """Return the parts of the time on a connection that make up its growth, the largest first."""
    grown = [each for each in parts if each.beyond_ms > each.best_ms and each.part not in QUEUES]
    total_ms = sum(each.beyond_ms - each.best_ms for each in grown)
    return [each for each in grown if each.beyond_ms - each.best_ms >= PART_MIN * total_ms]


def _sentence(
    found: KneeEstimate,
    size: int,
    ratio: tuple[float, float, float],
    longer_ms: float,
    parts: Sequence[TimePart],
    pools: int,
) -> str:
    more = pools * (size - found.knee)
    each = f" in each of {pools:,} instances" if pools > 1 else ""
    head = (
        f"with {size:,} instead of {numbers.counted(found.knee, 'connection', 'connections')}{each}"
        f" throughput {_change(ratio)}"
    )
    share = 100 * (1 - math.exp(math.log(ratio[0]) / more))
    cost = f", {numbers.figure(share)} % by each connection more" if ratio[2] < 1 else ""
    longer = (
        f", and a transaction takes {numbers.figure(longer_ms)} ms longer on its connection,"
        f" {numbers.figure(longer_ms / more)} ms by each connection more"
        if longer_ms > 0
        else ""
    )
    return f"{head}{cost}{longer}{_goes_to(parts)}"


def _change(ratio: tuple[float, float, float]) -> str:
    middle, low, high = ratio
    words = f"[{100 * (low - 1):+.1f}, {100 * (high - 1):+.1f} %]"
    if high < 1:
        return f"falls by {numbers.percent(1 - middle)} {words}"
    if low > 1:
        return f"rises by {numbers.percent(middle - 1)} {words}"
    return f"differs by no more than the noise {words}"


def _goes_to(parts: Sequence[TimePart]) -> str:
    grown = _grown(parts)[:NAMED_MAX]
    if not grown:
        return ""
    each = (f"{part.words} +{numbers.figure(part.beyond_ms - part.best_ms)} ms" for part in grown)
    queue = sum(part.best_ms - part.beyond_ms for part in parts if part.part in QUEUES)
    less = f"; the wait for a connection is {numbers.figure(queue)} ms shorter" if queue > 0 else ""
    return f": {', '.join(each)}{less}"


def _three(value: float) -> float:
    return float(f"{value:.3g}")
