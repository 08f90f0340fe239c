"""The metrics of postgres-loadgen, the load generator that the workload ``mixed`` is taken from.

Names, labels and units are its own, so that its dashboards show pgdyno's runs; its counters lack
the ending ``_total``, so the format does not name them counters. As there, a request that failed is
also counted as done. Only client groups with the workload ``mixed`` are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric

from pgdyno.live._families import BOUNDS_S, buckets_of
from pgdyno.live._figures import Figures, ScriptFigures

if TYPE_CHECKING:
    from pgdyno.record import RunInfo

WORKLOAD = "mixed"
TYPES = {
    "insert": "insert_row",
    "read": "read_row",
    "update": "update_row",
    "max-id": "fetch_max",
    "invalid": "invalid",
}
"""Scripts of ``mixed`` and the types of their requests."""
ALWAYS_FAIL = {"invalid"}
"""Scripts that are an error on purpose."""
BOUNDS_US = tuple(bound * 1e6 for bound in BOUNDS_S)
US = 1e6


def loadgen_families(figures: Figures, run: RunInfo) -> Iterator[Metric]:
    """Yield its metrics; none without a client group that executes ``mixed``."""
    groups = mixed_groups(run)
    scripts = {
        key: each for key, each in figures.scripts.items() if key[0] in groups and key[1] in TYPES
    }
    if not scripts:
        return
    url = str(run.server.get("entrance_uri") or run.server.get("uri", ""))
    connections = GaugeMetricFamily("pgloadgen_nconns", "Open connections", labels=("pgUrl",))
    connections.add_metric((url,), sum(figures.groups[group].connections for group in groups))
    yield connections
    by_type: dict[str, list[tuple[tuple[str, str], ScriptFigures]]] = {}
    for key, each in scripts.items():
        by_type.setdefault(key[1], []).append((key, each))
    yield from _requests(by_type)
    yield from _latencies(figures, by_type)
    errors = _counter("pgloadgen_error_messages", "Requests failed, by message")
    for (group, message), count in figures.messages.items():
        if group in groups:
            errors.add_sample(errors.name, {"errorMessage": message}, count)
    yield errors
    for mode in ("user", "system"):
        cpu = _counter(f"pgloadgen_cpu_{mode}_us", f"CPU time of the load generator, {mode}, in us")
        cpu.add_sample(cpu.name, {}, figures.generator[f"cpu_{mode}_us"])
        yield cpu


def mixed_groups(run: RunInfo) -> list[str]:
    """Return the client groups with the workload ``mixed``."""
    default = run.spec.get("workload", {}).get("script")
    groups = run.spec.get("clients", [])
    return [each["name"] for each in groups if (each.get("script") or default) == WORKLOAD]


_Types = dict[str, list[tuple[tuple[str, str], ScriptFigures]]]


def _requests(by_type: _Types) -> Iterator[Metric]:
    started = _counter("pgloadgen_nqueries_started", "Requests started, by type")
    done = _counter("pgloadgen_nqueries_done", "Requests completed, also failed ones, by type")
    failed = _counter("pgloadgen_nqueries_failed", "Requests failed, by type")
    for script, several in by_type.items():
        labels = {"type": TYPES[script]}
        sums = [each.sums for _, each in several]
        started.add_sample(started.name, labels, sum(each["sent"] for each in sums))
        done.add_sample(done.name, labels, sum(each["done"] + each["failed"] for each in sums))
        failures = sum(each["failed"] + each["expected_errors"] for each in sums)
        failed.add_sample(failed.name, labels, failures)
    yield from (started, done, failed)


def _latencies(figures: Figures, by_type: _Types) -> Iterator[Metric]:
    latency = HistogramMetricFamily(
        "pgloadgen_query_latency_us",
        "Time of requests, from the first byte to the last answer, in us",
        labels=("type", "result"),
    )
    longest = GaugeMetricFamily(
        "pgloadgen_query_latency_max_us",
        "Longest time of a request in the last minute, in us",
        labels=("type",),
    )
    for script, several in by_type.items():
        result = "error" if script in ALWAYS_FAIL else "ok"
        times = [each.times["service"] for _, each in several]
        latency.add_metric((TYPES[script], result), *buckets_of(times, BOUNDS_US, US))
        longest_s = max(figures.longest_s("service", *key) for key, _ in several)
        longest.add_metric((TYPES[script],), longest_s * US)
    yield from (latency, longest)


def _counter(name: str, text: str) -> Metric:
    """Return a counter without the ending that the format demands of one."""
    return Metric(name, text, "unknown")
