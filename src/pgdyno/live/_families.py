"""The run's own metrics, ``pgdyno_*``, in seconds and bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from pgdyno._engine import Histogram
from pgdyno.live._figures import Figures, GroupFigures

if TYPE_CHECKING:
    from pgdyno.record import RunInfo

BOUNDS_S = (
    *(0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0),
    *(5.0, 10.0),
)
"""Limits of the buckets: 1, 2, 5 from 0.1 ms to 10 s."""
OUTCOMES = ("done", "failed", "skipped", "cancelled")
_SCRIPT = ("client_group", "script")
_OTHER_COUNTS = {
    "intended": "Transactions that were due to start",
    "sent": "Transactions of which the first byte was sent",
    "retried": "Transactions that were tried again after a serialization failure or deadlock",
    "expected_errors": "Errors that scripts expect; their transactions are done",
    "late": "Transactions done above the latency limit of their group",
}
_TIME_HELP = {
    "response": "Time from when a transaction was due until its last answer: wait and service",
    "wait": "Time from when a transaction was due until its first byte was sent",
    "service": "Time from the first byte of a transaction until its last answer",
}
_GROUP_GAUGES: dict[str, tuple[str, Callable[[GroupFigures], float]]] = {
    "clients": ("Clients", lambda group: group.clients),
    "connections": ("Open connections of the clients", lambda group: group.connections),
    "unanswered_clients": (
        "Clients that have waited for an answer for 2 s or longer",
        lambda group: group.unanswered,
    ),
    "unanswered_longest_seconds": (
        "The longest of these waits so far",
        lambda group: group.unanswered_us_max / 1e6,
    ),
}
_GROUP_HELP = {
    "connects": "Connections established, the first time or again",
    "reconnects": "Connections established in place of lost ones",
    "connect_failures": "Failures to connect",
}


def own_families(figures: Figures, run: RunInfo) -> Iterator[Metric]:
    """Yield the metrics of the load: transactions, times, connections, errors, generator."""
    yield _info(run)
    yield from _transactions(figures)
    yield from _times(figures)
    yield from _groups(figures)
    yield from _counted(figures)
    yield from _generator(figures)


def buckets_of(
    histograms: Iterable[Histogram], bounds: Sequence[float], per_second: float
) -> tuple[list[tuple[str, float]], float]:
    """Return Prometheus' cumulative buckets and the sum, of times in units of 1 / ``per_second``.

    The buckets are those of the run file's histograms, whose limits have a precision of 1 %.
    """
    total = Histogram()
    for histogram in histograms:
        total.add(histogram)
    counts = [0] * (len(bounds) + 1)
    for ns, count in total.buckets():
        counts[bisect_left(bounds, ns / 1e9 * per_second)] += count
    names = [*(f"{bound:g}" for bound in bounds), "+Inf"]
    below = map(float, accumulate(counts))
    return list(zip(names, below, strict=True)), total.mean * total.count / 1e9 * per_second


def _info(run: RunInfo) -> Metric:
    info = InfoMetricFamily("pgdyno_run", "The run that is recorded")
    labels = {
        "name": run.name,
        "command": run.command,
        "pgdyno_version": run.pgdyno_version,
        "server_version": str(run.server.get("version", "")),
        "server_kind": str(run.server.get("kind", "")),
    }
    info.add_metric((), labels)
    return info


def _transactions(figures: Figures) -> Iterator[Metric]:
    ended = CounterMetricFamily(
        "pgdyno_transactions", "Transactions by outcome", labels=(*_SCRIPT, "outcome")
    )
    backlog = GaugeMetricFamily(
        "pgdyno_backlog", "Transactions that wait or run", labels=("client_group",)
    )
    waiting = dict.fromkeys(figures.groups, 0)
    for (group, script), each in figures.scripts.items():
        for outcome in OUTCOMES:
            ended.add_metric((group, script, outcome), each.sums[outcome])
        waiting[group] = waiting.get(group, 0) + each.backlog
    yield ended
    for name, text in _OTHER_COUNTS.items():
        family = CounterMetricFamily(f"pgdyno_transactions_{name}", text, labels=_SCRIPT)
        for key, each in figures.scripts.items():
            family.add_metric(key, each.sums[name])
        yield family
    for group, count in waiting.items():
        backlog.add_metric((group,), count)
    yield backlog


def _times(figures: Figures) -> Iterator[Metric]:
    groups = dict.fromkeys(group for group, _ in figures.scripts)
    for name, text in _TIME_HELP.items():
        family = HistogramMetricFamily(f"pgdyno_{name}_seconds", text, labels=("client_group",))
        longest = GaugeMetricFamily(
            f"pgdyno_{name}_longest_seconds",
            f"{text}: the longest in the last minute",
            labels=("client_group",),
        )
        for group in groups:
            of_group = [
                each.times[name] for key, each in figures.scripts.items() if key[0] == group
            ]
            family.add_metric((group,), *buckets_of(of_group, BOUNDS_S, 1))
            longest.add_metric((group,), figures.longest_s(name, group))
        yield family
        yield longest


def _groups(figures: Figures) -> Iterator[Metric]:
    for name, (text, value_of) in _GROUP_GAUGES.items():
        gauge = GaugeMetricFamily(f"pgdyno_{name}", text, labels=("client_group",))
        for group, each in figures.groups.items():
            gauge.add_metric((group,), value_of(each))
        yield gauge
    for name, text in _GROUP_HELP.items():
        family = CounterMetricFamily(f"pgdyno_{name}", text, labels=("client_group",))
        for group, each in figures.groups.items():
            family.add_metric((group,), each.sums[name])
        yield family


def _counted(figures: Figures) -> Iterator[Metric]:
    errors = CounterMetricFamily(
        "pgdyno_errors", "Errors of statements", labels=(*_SCRIPT, "sqlstate", "expected")
    )
    for (group, script, sqlstate, expected), count in figures.errors.items():
        errors.add_metric((group, script, sqlstate, "yes" if expected else "no"), count)
    yield errors
    events = CounterMetricFamily("pgdyno_events", "Events of the run", labels=("kind",))
    for kind, count in figures.events.items():
        events.add_metric((kind,), count)
    yield events
    looks = CounterMetricFamily("pgdyno_wait_looks", "Looks at the sessions' waits")
    looks.add_metric((), figures.looks)
    yield looks
    waits = CounterMetricFamily(
        "pgdyno_wait_sessions",
        "Sessions at work, summed over all looks, by the event that they wait for (CPU running: for"
        " none); divided by the looks it is the average number of sessions",
        labels=("wait_event_type", "wait_event"),
    )
    for key, count in figures.waits.items():
        waits.add_metric(key if any(key) else _NO_WAIT, count)
    yield waits


_NO_WAIT = ("CPU", "running")
"""Prometheus takes an empty label for a missing one, and a chart's line would have no name."""


def _generator(figures: Figures) -> Iterator[Metric]:
    cpu = CounterMetricFamily(
        "pgdyno_generator_cpu_seconds", "CPU time of the load engine's threads", labels=("mode",)
    )
    for mode in ("user", "system"):
        cpu.add_metric((mode,), figures.generator[f"cpu_{mode}_us"] / 1e6)
    yield cpu
    delay = CounterMetricFamily(
        "pgdyno_generator_run_queue_delay_seconds",
        "Time for which the load engine's threads were ready to run without a core",
    )
    delay.add_metric((), figures.generator["run_queue_delay_us"] / 1e6)
    yield delay
    yield GaugeMetricFamily(
        "pgdyno_generator_threads", "Threads of the load engine", figures.threads
    )
    yield GaugeMetricFamily(
        "pgdyno_generator_loop_stall_longest_seconds",
        "Longest pass of the load engine's event loop in the last minute",
        figures.loop_stall_s,
    )
    if figures.last_interval_unix_s is not None:
        yield GaugeMetricFamily(
            "pgdyno_last_interval_timestamp_seconds",
            "End of the last interval of the load, as Unix time",
            figures.last_interval_unix_s,
        )
