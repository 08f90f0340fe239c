"""The client sessions of a run: how many in each state, from where, how old, how many are made, and
the connections that the server has for them.

The sessions are read from the run file alone, for rules, the summary and the page alike.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from statistics import fmean
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pgdyno.facts.holders import sees_all_sessions
from pgdyno.facts.slices import Facts
from pgdyno.record import RunFile
from pgdyno.record.finding import Lack, Skip
from pgdyno.record.sessionages import EMPTY, STATES, added, older, read

if TYPE_CHECKING:
    from numpy.typing import NDArray


AGES = ("idle_ages", "pause_ages", "transaction_ages", "connection_ages")
COLUMNS = (*STATES.values(), "hidden")
SECOND_MS = 500
"""Samples that are closer are not compared: a rate over milliseconds is noise."""
SAMPLINGS_MIN = 2
SHORT_LIVED_MAX = 10.0
"""Transactions per connection up to which a connection is hardly worth its making: ten of them
divide its cost by ten."""


class SessionOrigin(Struct, frozen=True):
    """Sessions of one role, application and client address over some slices."""

    role: str
    application: str
    address: str
    means: dict[str, float]
    """Average number in each state, by column of metric_origin."""
    most: int
    """The most sessions at once."""
    unused: int
    """The most at once that had done nothing since they connected."""
    ages: dict[str, tuple[int, ...]]
    """Histograms at the end, by column."""

    @property
    def name(self) -> str:
        """Application, role and address in words."""
        application = self.application or "(no name)"
        return f"{application}, {self.role} from {self.address or 'a socket'}"

    @property
    def mean(self) -> float:
        """Average number of sessions."""
        return sum(self.means.values())


def origins(run: RunFile, slice_ids: Collection[int] | None) -> list[SessionOrigin]:
    """Return the origins of sessions, those with most sessions first."""
    import numpy as np

    rows = run.series("metric_origin", slice_ids)
    moments = len(np.unique(rows["at_ms"]))
    if not moments:
        return []
    names = list(zip(rows["role"], rows["application"], rows["address"], strict=True))
    last_ms = rows["at_ms"].max()
    found = []
    for name in dict.fromkeys(names):
        role, application, address = map(str, name)
        mine = np.array([each == name for each in names], dtype=bool)
        at_end = mine & (rows["at_ms"] == last_ms)
        found.append(
            SessionOrigin(
                role,
                application,
                address,
                means={each: float(rows[each][mine].sum()) / moments for each in COLUMNS},
                most=int(sum(rows[each][mine] for each in COLUMNS).max()),
                unused=int(rows["unused"][mine].max()),
                ages={each: reduce(added, map(read, rows[each][at_end]), EMPTY) for each in AGES},
            )
        )
    return sorted(found, key=lambda origin: -origin.mean)


def ages_at_end(found: Collection[SessionOrigin], column: str) -> tuple[int, ...]:
    """Return a histogram of all origins at the end."""
    return reduce(added, (each.ages[column] for each in found), EMPTY)


def by_state(run: RunFile, slice_ids: Collection[int] | None) -> dict[str, NDArray[Any]]:
    """Return the number of sessions in each state over time, by state; states are never missing."""
    rows = run.series("metric_activity", slice_ids)
    counts = {state: rows["count"][rows["state"] == state] for state in STATES}
    shortest = min(map(len, counts.values()))
    return {state: values[:shortest] for state, values in counts.items()}


def idle_on_average(run: RunFile, slice_ids: Collection[int] | None) -> float | None:
    """Return the average number of sessions that do nothing, also within a transaction; None if
    sessions were not recorded."""
    counts: dict[str, list[float]] = {}
    for each in run.samples("metric_activity", slice_ids):
        counts.setdefault(each["state"], []).append(each["count"])
    idle = [fmean(each) for state, each in counts.items() if state.startswith("idle")]
    return sum(idle) if counts.get("idle") else None


class Churn(Struct, frozen=True):
    """Connections made in the database under load."""

    made: int
    seconds: float
    peak_per_s: float
    """In the busiest second or so; sessions are counted when they report."""
    broken: int
    """Ended by a lost client, a fatal error or an administrator."""

    @property
    def per_s(self) -> float:
        """Connections made per second."""
        return self.made / self.seconds if self.seconds else 0.0


def churn(run: RunFile, slice_ids: Collection[int] | None) -> Churn | None:
    """Return the connections made; None if they were not recorded."""
    import numpy as np

    rows = run.series("metric_database", slice_ids)
    known = ~np.isnan(rows["sessions"])
    at_ms, made = rows["at_ms"][known], rows["sessions"][known]
    if len(at_ms) < 2:
        return None
    grown, elapsed_ms = np.maximum(np.diff(made), 0), np.diff(at_ms)
    whole = elapsed_ms >= SECOND_MS
    rates = 1000 * grown[whole] / elapsed_ms[whole]
    ended = (rows[name][known] for name in ("sessions_abandoned", "sessions_fatal",
                                           "sessions_killed"))  # fmt: skip
    broken = sum(float(np.nansum(np.maximum(np.diff(values), 0))) for values in ended)
    return Churn(
        made=int(grown.sum()),
        seconds=float(at_ms[-1] - at_ms[0]) / 1000,
        peak_per_s=float(rates.max(initial=0.0)),
        broken=int(broken),
    )


def transactions_per_connection(s: Facts) -> float | None:
    """Return the transactions done for each connection that clients of the load made; None if they
    made no more than one each, or the load is not pgdyno's own."""
    made = sum(account.connects.made for account in s.accounts)
    clients = sum(account.clients for account in s.accounts)
    return s.throughput_tps * s.seconds / made if made > clients else None


class SessionMoments(Struct, frozen=True):
    """Client sessions of all origins over time: one number for each sampling, in time order."""

    at_ms: NDArray[Any]
    connected: NDArray[Any]
    at_work: NDArray[Any]
    """Active or in a transaction."""
    paused: NDArray[Any]
    """Idle in a transaction."""
    hidden: NDArray[Any]
    long_idle: NDArray[Any]
    """Idle for at least the bound that was asked for."""
    long_paused: NDArray[Any]
    """Idle in a transaction for at least this time."""


def moments(run: RunFile, slice_ids: Collection[int] | None, bound_s: int) -> SessionMoments:
    """Return the sessions over time; ``bound_s`` is one of sessionages.BOUNDS_S."""
    import numpy as np

    rows = run.series("metric_origin", slice_ids)
    at_ms, row_of = np.unique(rows["at_ms"], return_inverse=True)

    def summed(values: NDArray[Any]) -> NDArray[Any]:
        return np.bincount(row_of, weights=values, minlength=len(at_ms))

    def aged(column: str) -> NDArray[Any]:
        return summed(np.array([older(read(text), bound_s) for text in rows[column]], float))

    paused = rows["in_transaction"] + rows["in_aborted"]
    return SessionMoments(
        at_ms=at_ms,
        connected=summed(np.sum([rows[name] for name in COLUMNS], axis=0)),
        at_work=summed(rows["active"] + rows["fastpath"] + paused),
        paused=summed(paused),
        hidden=summed(rows["hidden"]),
        long_idle=aged("idle_ages"),
        long_paused=aged("pause_ages"),
    )


def seen_sessions(s: Facts, bound_s: int) -> SessionMoments:
    """Return the client sessions over time. Raises Skip if they were not recorded, or are hidden
    from the role."""
    seen = moments(s.run, s.slice_ids, bound_s)
    if len(seen.at_ms) < SAMPLINGS_MIN:
        raise Skip("client sessions were not recorded")
    if seen.hidden.any() or not sees_all_sessions(s):
        raise Skip(
            "this role may not see the sessions of other roles (pg_monitor may)", Lack.RIGHTS
        )
    return seen


def usable(s: Facts) -> float:
    """Return the connections that roles without reserved ones may use."""
    rows = s.run.series("metric_connection", s.slice_ids)
    if not len(rows["at_ms"]):
        raise Skip("the connections in use were not recorded")
    return max(1.0, float(rows["usable"][-1]))


def most_of(s: Facts, column: str) -> SessionOrigin | None:
    """Return the origin with most sessions on average in one of the states."""
    found = [each for each in origins(s.run, s.slice_ids) if each.means[column] > 0]
    most = max(found, key=lambda origin: origin.means[column], default=None)
    every = sum(origin.means[column] for origin in found)
    return most if most is not None and most.means[column] > every / 2 else None
