"""Figures of two runs beside each other: rows of a title, both figures and their ratio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.report.words.prose import cut

if TYPE_CHECKING:
    from pgdyno.results.diff import LatencyPairs, LoadFigures, Pair

STATEMENT_WIDTH = 46
PERCENTILES = ("mean", "p50", "p95", "p99", "p99.9", "max")
WAIT_SHARE_MIN = 0.02
"""Share of the mean response time from which the wait has rows of its own."""
TITLES = {
    "server_cores": "PostgreSQL, cores",
    "server_cpu_us_per_transaction": "CPU of PostgreSQL per transaction, us",
    "generator_cores": "load generator, cores",
    "wal_bytes_s": "WAL, per second",
    "wal_bytes_per_transaction": "WAL per transaction",
    "disk_read_bytes_s": "read from its disks, per second",
    "disk_write_bytes_s": "written to its disks, per second",
    "vacuums": "vacuums of a table, by a statement",
    "autovacuums": "vacuums of a table, automatic",
    "transaction_ids_s": "transaction IDs, per second",
    "days_until_ids_stop": "days until they run out at this rate, without a freeze",
}
"""Name of a figure in results → its title."""


def speed_rows(figures: LoadFigures) -> list[list[str]]:
    """Return the rows of the throughput, and of percentiles of the response time and its parts."""
    tps = figures.throughput_tps
    throughput = ["throughput, tps", numbers.tps(tps.a), numbers.tps(tps.b)]
    return [[*throughput, numbers.ratio(tps.ratio)], *_latency_rows(figures.latency_ms)]


def _latency_rows(latency: LatencyPairs) -> list[list[str]]:
    """Return the percentiles of the response time, and of its parts if either run waited for
    anything except the server."""
    parts = {"response": latency.response}
    if _waited(latency):
        parts |= {"wait": latency.wait, "service": latency.service}
    return [
        [
            f"{part} {name}, ms",
            numbers.ms_figure(both.a),
            numbers.ms_figure(both.b),
            numbers.ratio(both.ratio),
        ]
        for part, percentiles in parts.items()
        for name in PERCENTILES
        if (both := percentiles.get(name)) and (both.a, both.b) != (None, None)
    ]


def _waited(latency: LatencyPairs) -> bool:
    """True if a considerable share of the response time of either run was wait."""
    wait, response = latency.wait.get("mean"), latency.response.get("mean")
    if wait is None or response is None:
        return False
    sides = ((wait.a, response.a), (wait.b, response.b))
    return any((part or 0) > WAIT_SHARE_MIN * (whole or 0) for part, whole in sides)


def work_rows(work: Mapping[str, Pair]) -> list[list[str]]:
    """Return title, both figures and their ratio of each figure of two runs that is not 0 in
    both."""
    return [
        [TITLES[name], _shown(name, both.a), _shown(name, both.b), numbers.ratio(both.ratio)]
        for name, both in work.items()
        if both.a or both.b
    ]


def beside_rows(beside: Mapping[str, Pair]) -> list[list[str]]:
    """Return the same of statements executed beside the load."""
    return [
        [
            cut(text, STATEMENT_WIDTH),
            numbers.ms_figure(both.a),
            numbers.ms_figure(both.b),
            numbers.ratio(both.ratio),
        ]
        for text, both in beside.items()
    ]


def _shown(name: str, value: float | None) -> str:
    return numbers.size(value) if "_bytes_" in name else numbers.significant(value)
