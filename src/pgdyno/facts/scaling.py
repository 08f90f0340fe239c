"""Throughput against clients in a run with a ramp or steps, and the knee of that curve.

Read from the run file alone, for the result, the summary and the page alike. A load with open loops
has no such curve: there, what is done follows the rate and not the clients.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from pgdyno.facts.intervals import timed
from pgdyno.numbers import counted
from pgdyno.record import Interval, RunFile
from pgdyno.spec.units import parse_duration_ms
from pgdyno.stats import ERROR_MAX, ScalabilityLaw, knee
from pgdyno.stats.scaling import POINTS_MIN

CLASSES_MAX = 40
"""A longer ramp is put into that many classes."""

ByClients = dict[int, list[Interval]]


class Scaling(Struct, frozen=True):
    """The curve of one run, and its knee if it has one."""

    means_tps: Mapping[int, float]
    """Points by number of clients, ascending."""
    fit: ScalabilityLaw | None
    """None: too few numbers of clients, or no curve of the law."""

    @property
    def clients_max(self) -> int:
        """The largest number of clients measured."""
        return max(self.means_tps)

    @property
    def knee_clients(self) -> float | None:
        """Clients at the knee; None if there is none within the range measured."""
        fit = self.fit
        return fit.clients_at_knee if fit and fit.clients_at_knee <= self.clients_max else None

    @property
    def sentence(self) -> str:
        """Sentence about the knee of throughput against clients, with its certainty."""
        span = f"{min(self.means_tps):,} to {counted(self.clients_max, 'client', 'clients')}"
        if self.fit is None and len(self.means_tps) < POINTS_MIN:
            return f"not examined: {len(self.means_tps)} numbers of clients, {POINTS_MIN} needed"
        if self.fit is None:
            return (
                f"unknown: throughput at {span} does not follow the Universal Scalability Law"
                f" within {ERROR_MAX:.0%}".replace("%", " %")
            )
        if self.knee_clients is None:
            return f"no knee within {span}: throughput still grows with the clients"
        lo, hi = self.fit.knee_ci95
        top = f"{math.ceil(hi):,}" if hi <= self.clients_max else f"more than {self.clients_max:,}"
        about = counted(round(self.knee_clients), "client", "clients")
        return (
            f"at about {about} (95 % interval {math.floor(lo):,} to {top}),"
            " throughput stops growing in step with clients: by the fitted curve, each further"
            " client adds less than half of what the first adds"
        )

    def to_json(self) -> dict[str, object]:
        """Return the form in results."""
        within, fit = self.knee_clients, self.fit
        hi = fit.knee_ci95[1] if fit else math.inf
        return {
            "sentence": self.sentence,
            "clients": [
                {"clients": clients, "throughput_tps": round(tps, 2)}
                for clients, tps in self.means_tps.items()
            ],
            "knee_clients": None if within is None else round(within, 2),
            "ci95": None
            if fit is None or within is None
            else [round(fit.knee_ci95[0], 2), round(hi, 2) if math.isfinite(hi) else None],
            "relative_error": None if fit is None else round(fit.relative_error, 4),
        }


def scaling_of(run: RunFile) -> Scaling | None:
    """Return the curve of a single run; None if its clients do not vary by a ramp or steps."""
    load = run.run.spec.get("load") or {}
    varied = bool(load.get("steps")) or parse_duration_ms(load.get("ramp") or "0s") > 0
    idle = any(group.get("idle") for group in run.run.spec.get("clients") or [])
    if run.run.command != "run" or not varied or idle or not clients_decide(run):
        return None
    classes = client_classes(timed(under_load(run)))
    means = {clients: mean_tps(members) for clients, members in classes.items()}
    return Scaling(means, knee([*means], [*means.values()])) if len(means) > 1 else None


def clients_decide(run: RunFile) -> bool:
    """True if all clients work in closed loops, so that throughput depends on their number."""
    groups = run.run.spec.get("clients") or []
    return not any(isinstance(group.get("arrival"), Mapping) for group in groups)


def under_load(run: RunFile) -> list[Interval]:
    """Intervals with clients, from the ramp to the end of the last slice."""
    intervals = [interval for interval in run.intervals() if interval.clients]
    measured = [n for n, each in enumerate(intervals) if each.slice_id is not None]
    return intervals[: measured[-1] + 1] if measured else intervals


def client_classes(intervals: Sequence[Interval]) -> ByClients:
    """Number of clients → its intervals; many numbers are rounded up to multiples."""
    most = max((i.clients for i in intervals), default=0)
    width = max(1, -(-most // CLASSES_MAX))
    classes: ByClients = defaultdict(list)
    for interval in intervals:
        classes[min(-(-interval.clients // width) * width, most)].append(interval)
    return dict(sorted(classes.items()))


def mean_tps(intervals: Sequence[Interval]) -> float:
    """Transactions done per second over ``intervals``, which must not be empty."""
    return 1000 * sum(i.done for i in intervals) / sum(i.duration_ms for i in intervals)
