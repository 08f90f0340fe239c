"""Cost of the ack ledger: slices with it and without it, in pairs."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from benches.engine import EngineChild, Pgdyno
from benches.sample import Case, Contender, Sample
from benches.server import BenchServer
from pgdyno.stats import paired_effect


class WithAcks(Struct, frozen=True):
    """pgdyno with an ack ledger, in a new directory for each slice."""

    server: BenchServer
    child: EngineChild
    name: str = "pgdyno with acks"

    def measure(self, case: Case, seconds: float) -> Sample:
        """Measure one slice."""
        with tempfile.TemporaryDirectory() as directory:
            contender = Pgdyno(self.server, self.child, self.name, {"acks": directory})
            return contender.measure(case, seconds)


def acks_cost(
    server: BenchServer, child: EngineChild, cases: Sequence[Case], *, pairs: int, seconds: float
) -> list[dict[str, Any]]:
    """Return ratios with/without of throughput and CPU per transaction, rows for each case."""
    rng = random.Random(3)
    sides: list[Contender] = [Pgdyno(server, child, "pgdyno"), WithAcks(server, child)]
    rows = []
    for case in cases:
        samples: tuple[list[Sample], list[Sample]] = ([], [])
        for _ in range(pairs):
            for side in rng.sample([0, 1], 2):
                samples[side].append(sides[side].measure(case, seconds))
        without, with_acks = samples
        for metric in ("throughput_tps", "cpu_us"):
            effect = paired_effect(
                [getattr(sample, metric) for sample in without],
                [getattr(sample, metric) for sample in with_acks],
            )
            rows.append({**asdict(case), "metric": metric, "effect": asdict(effect)})
    return rows
