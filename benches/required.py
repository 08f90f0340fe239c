"""Required figures, and their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from benches.compare import ENGINE, PGDYNO, Metric, best, cases_of, ratio
from benches.matrix import Matrix, has_requirement
from benches.recording import PLAIN
from benches.results import matrix_from
from benches.sample import Case
from pgdyno.stats import PairedEffect

Met = Literal["yes", "no", "unclear"]


class Figure(Struct, frozen=True):
    """A required figure with its measured value."""

    what: str
    bound: float
    at_most: bool
    lo: float
    measured: float
    hi: float
    pairs: int | None

    @property
    def met(self) -> Met:
        """yes or no if the whole interval is on one side of the bound."""
        lo, hi = (self.lo, self.hi) if self.at_most else (-self.hi, -self.lo)
        bound = self.bound if self.at_most else -self.bound
        return "yes" if hi <= bound else "no" if lo > bound else "unclear"


def required_of_matrix(matrix: Matrix) -> Iterator[Figure]:
    """Yield the figures of select-only on the Unix socket, where the client's share is largest."""
    cases = {case.clients: case for case in cases_of(matrix) if has_requirement(case)}
    for clients, bound in {8: 0.75, 64: 0.55, 1000: 0.55}.items():
        if case := cases.get(clients):
            yield from _against(matrix, case, "cpu", "pgbench", bound)
    for case in cases.values():
        yield from _against(matrix, case, "throughput", "pgbench", 1.0)
    if case := cases.get(64):
        effect = ratio(matrix, case, "throughput", "pgbench -j 1").effect
        yield from _figure("throughput / pgbench -j 1, c=64", 1.4, False, effect)
    for clients in (8, 64, 1000):
        if case := cases.get(clients):
            yield from _against(matrix, case, "cpu", "bare", 1.15)


def required_of_parts(parts: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield the figures of parts other than the matrix."""
    yield from _required_of_whole(matrix_from(parts.get("whole", {}).get("rows", [])))
    for row in parts.get("acks", {}).get("rows", []):
        if row["metric"] == "throughput_tps":
            what = f"throughput with ack ledger / without, {row['script']}, c={row['clients']}"
            yield from _figure(what, 0.97, False, PairedEffect(**row["effect"]))
    for script, effect in parts.get("probes", {}).get("effects", {}).items():
        what = f"throughput with all probes / without, {script}"
        yield from _figure(what, 0.99, False, PairedEffect(**effect))
    for script, (lo, mean, hi) in parts.get("probes", {}).get("cpu_shares", {}).items():
        what = f"CPU of all probes / of all cores, {script}"
        yield Figure(what, 0.01, True, lo, mean, hi, parts["probes"]["pairs"])
    for row in parts.get("recording", {}).get("rows", []):
        if row["over"] == PLAIN:
            what = f"throughput recorded / {PLAIN}, {row['script']}, c={row['clients']}"
            yield from _figure(what, 0.75, False, PairedEffect(**row["effect"]))
    for row in parts.get("storm", {}).get("at_once", []):
        what = f"time of {row['clients']:,} connections at once / pgbench -j 1, {row['auth']}"
        yield from _figure(what, 0.8, True, PairedEffect(**row["effect"]))
    for row in parts.get("memory", {}).get("rows", []):
        what = f"KiB per connection, {row['clients']:,} connections, {row['use']}"
        kib = row["bytes_per_connection"] / 1024
        yield Figure(what, 16, True, kib, kib, kib, None)


def _required_of_whole(matrix: Matrix) -> Iterator[Figure]:
    bounds = {8: (0.85, 0.7), 64: (0.65, 0.5), 256: (0.75, 0.5), 1000: (0.8, 0.55)}
    for case in cases_of(matrix):
        of_process, of_engine = bounds[case.clients]
        yield from _against(matrix, case, "cpu", "pgbench", of_process, "whole process, ")
        yield from _against(matrix, case, "cpu", "pgbench", of_engine, "its engine, ", ENGINE)
        yield from _against(matrix, case, "throughput", "pgbench", 1.0, "whole process, ")


def _against(
    matrix: Matrix,
    case: Case,
    metric: Metric,
    family: str,
    bound: float,
    of: str = "",
    over: str = PGDYNO,
) -> Iterator[Figure]:
    peer = best(matrix, case, family, metric)
    if peer is None:
        return
    noun = "CPU per transaction" if metric == "cpu" else "throughput"
    what = f"{of}{noun} / {peer}, c={case.clients}"
    yield from _figure(what, bound, metric == "cpu", ratio(matrix, case, metric, peer, over).effect)


def _figure(
    what: str, bound: float, at_most: bool, effect: PairedEffect | None
) -> Iterator[Figure]:
    if effect is not None:
        yield Figure(what, bound, at_most, effect.lo, effect.ratio, effect.hi, effect.pairs)
