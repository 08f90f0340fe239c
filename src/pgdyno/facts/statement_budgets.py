"""The latency budget of each statement: its mean time by part.

The clients measure how long each statement takes; the samples of the server tell which statement a
session executed. Each part of the budget of a transaction is divided among the statements by their
own samples: a wait by those of its class, what the flush is cut into by those of the flush, time on
a core and in the queue for one by those that showed no wait. So the parts of all statements
together never exceed that of the transaction. Texts differ: the server shows ``$1`` or values where
the script has ``:name``, so statements are matched by shape (``statement_shape``), and statements
of the same shape share what was sampled by the time that they take.

What remains of a statement was not spent in the server, unless too few samples show where the CPU
time went: as much as that is ``too few samples``. So is all of a statement that was under way in
less than ``SAMPLES_MIN`` samples. Parsing and planning are part of the CPU time: the server does
not say how much.

Statements of a pipeline are answered together: none has a time of its own, and none a budget.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from pgdyno.facts.budget import CLIENT_PARTS, Part
from pgdyno.facts.shapes import same_shape, shape
from pgdyno.facts.situation import Situation
from pgdyno.record import StatementTotal
from pgdyno.record.fileformat import CLIENT_BACKEND
from pgdyno.wait_events import wait_class

SAMPLES_MIN = 10
"""Sessions of a statement in all samples below which nothing is said of its parts: 10 of which
half wait are seen waiting 2 to 8 times (95 %, binomial)."""
ROUNDING_MS = 1e-6

SAMPLED_AS: dict[Part, str] = {
    "running": "cpu",
    "ready": "cpu",
    "images": "flush",
    "commit delay": "flush",
}
"""Parts that are not the wait class of their name, and the class whose samples divide them."""
_NOT_IN_STATEMENTS: tuple[Part, ...] = (
    *CLIENT_PARTS,
    "client",
    "pause",
    "late",
    "between",
    "unknown",
)

Sampled = dict[str, dict[str, float]]
"""Class of waits → wait event → average sessions."""


class StatementTimeBudget(Struct, frozen=True):
    """Mean milliseconds of one execution of a statement by part; they add up to ``ms``."""

    total: StatementTotal
    executions_per_transaction: float
    ms: float
    parts_ms: Mapping[Part, float]
    """The largest first."""
    events: Mapping[Part, Sequence[str]]


def statement_budgets(s: Situation) -> list[StatementTimeBudget]:
    """Return the budget of each statement of SQL, those that take the most time first."""
    overlapping = s.overlapping_groups
    totals = [t for t in s.statements if t.service.count and t.client_group not in overlapping]
    done = s.throughput_tps * s.seconds
    rates = [total.service.count / done for total in totals]
    times = [total.service.mean / 1e6 for total in totals]
    if s.sessions_were_sampled:
        sampled = _sampled_by_statement(s, totals)
        parts = _divided(s, times, rates, sampled)
    else:
        sampled = [{} for _ in totals]
        parts = [{"unknown": ms} for ms in times]
    found = [
        StatementTimeBudget(
            total=total,
            executions_per_transaction=rate,
            ms=ms,
            parts_ms=largest_first(mine),
            events=events_of(mine, seen),
        )
        for total, rate, ms, mine, seen in zip(totals, rates, times, parts, sampled, strict=True)
    ]
    return sorted(found, key=lambda each: -each.ms * each.executions_per_transaction)


def _divided(
    s: Situation, times: Sequence[float], rates: Sequence[float], sampled: Sequence[Sampled]
) -> list[dict[Part, float]]:
    """Divide the budget of a transaction among statements of ``times`` and ``rates``."""
    owned, computing_ms = _owned(s, rates, sampled)
    found: list[dict[Part, float]] = []
    between: list[float] = []
    for ms, rate, mine in zip(times, rates, owned, strict=True):
        enough = s.throughput_tps * rate * ms / 1000 * s.samplings >= SAMPLES_MIN
        found.append(fitted(mine, ms) if enough else {})
        left_ms = ms - sum(found[-1].values())
        between.append(max(0.0, left_ms - computing_ms / rate) if enough else 0.0)
    together_ms = sum(ms * rate for ms, rate in zip(between, rates, strict=True))
    kept = min(1.0, s.budget.parts_ms.get("between", 0.0) / together_ms) if together_ms else 0.0
    for ms, mine, between_ms in zip(times, found, between, strict=True):
        mine["between"] = between_ms * kept
        mine["too few samples"] = max(0.0, ms - sum(mine.values()))
    return found


def _owned(
    s: Situation, rates: Sequence[float], sampled: Sequence[Sampled]
) -> tuple[list[dict[Part, float]], float]:
    """Return each statement's time in the parts of the server, and what CPU time of a transaction
    samples assign to none of them, in milliseconds."""
    found: list[dict[Part, float]] = [{} for _ in rates]
    computing_ms = 0.0
    for part, ms in s.budget.parts_ms.items():
        if part in _NOT_IN_STATEMENTS:
            continue
        name = SAMPLED_AS.get(part, part)
        shares = _shares(s, name, sampled)
        for mine, rate, share in zip(found, rates, shares, strict=True):
            if ms * share > 0:
                mine[part] = ms * share / rate
        if name == "cpu":
            computing_ms += ms * max(0.0, 1.0 - sum(shares))
    return found, computing_ms


def fitted(parts: Mapping[Part, float], ms: float) -> dict[Part, float]:
    """Return ``parts`` of no more than ``ms``: sampling errs."""
    together_ms = sum(parts.values())
    scale = min(1.0, ms / together_ms) if together_ms > 0 else 1.0
    return {part: time_ms * scale for part, time_ms in parts.items()}


def _shares(s: Situation, name: str, sampled: Sequence[Sampled]) -> list[float]:
    """Return each statement's share of the sessions sampled in the class ``name``, 0 to 1."""
    if len(s.statements) == 1:
        return [1.0] * len(sampled)
    each = [sum(seen.get(name, {}).values()) for seen in sampled]
    whole = max(sum(n for of, n in s.by_class.items() if of == name), sum(each))
    if whole * s.samplings < (SAMPLES_MIN if name == "cpu" else 1):
        return [0.0] * len(sampled)
    return [sessions / whole for sessions in each]


def largest_first(parts: Mapping[Part, float]) -> dict[Part, float]:
    """Return ``parts`` in order, without those of no time but what rounding leaves."""
    known = [(part, ms) for part, ms in parts.items() if ms > ROUNDING_MS]
    return dict(sorted(known, key=lambda item: -item[1]))


def events_of(parts: Mapping[Part, float], seen: Sampled) -> dict[Part, list[str]]:
    """Return the wait events of ``parts``, the most frequent first."""
    by_part = {part: seen.get(SAMPLED_AS.get(part, part), {}) for part in parts}
    return {
        part: sorted(events, key=lambda event: -events[event])
        for part, events in by_part.items()
        if events and SAMPLED_AS.get(part) != "cpu"
    }


def _sampled_by_statement(s: Situation, totals: Sequence[StatementTotal]) -> list[Sampled]:
    """Return the samples of each statement of ``totals``."""
    shapes = [shape(total.statement) for total in totals]
    sessions = [total.spent_ns for total in totals]
    found: list[Sampled] = [defaultdict(lambda: defaultdict(float)) for _ in totals]
    for text, waits in sampled_texts(s).items():
        sampled = shape(text)
        mine = [n for n, each in enumerate(shapes) if same_shape(each, sampled)]
        together = sum(sessions[n] for n in mine)
        for n in mine:
            for (name, event), average in waits.items():
                found[n][name][event] += average * sessions[n] / together
    return found


def sampled_texts(s: Situation) -> dict[str, dict[tuple[str, str], float]]:
    """Return statement → (class, wait event) → average sessions."""
    found: dict[str, dict[tuple[str, str], float]] = defaultdict(lambda: defaultdict(float))
    for wait in s.waits:
        if wait.backend_type == CLIENT_BACKEND and wait.state == "active" and wait.statement:
            name = wait_class(wait.state, wait.wait_event_type, wait.wait_event)
            if name is not None and name != "client":
                found[wait.statement][name, f"{wait.wait_event_type}:{wait.wait_event}"] += (
                    wait.average
                )
    return found
