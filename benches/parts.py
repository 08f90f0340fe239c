"""Parts of a benchmark run, and their figures."""

from __future__ import annotations

import argparse
import math
import sys
import time
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from benches.acks import acks_cost
from benches.connections import memory_per_connection, reconnecting, storm
from benches.engine import EngineChild
from benches.floor import bare_program
from benches.matrix import CORES, Field, Matrix, all_cases, has_requirement, run_matrix
from benches.openloop import OpenLoops
from benches.probe_cost import probe_cost
from benches.recording import recording_cost
from benches.results import matrix_json
from benches.sample import SCRIPTS, BenchError, Case
from benches.server import BenchServer
from benches.whole import CLIENTS as WHOLE_CLIENTS
from benches.whole import shortest_runs, whole_processes

PARTS = ("matrix", "whole", "openloop", "acks", "probes", "memory", "storm", "recording")


def say(text: str) -> None:
    """Print progress to stderr."""
    print(text, file=sys.stderr, flush=True)


class Parts(Struct, frozen=True):
    """Measurement of the parts, one method for each of ``PARTS``.

    ``arguments`` are those of the command line.
    """

    arguments: argparse.Namespace
    server: BenchServer
    child: EngineChild

    def measure(self, name: str) -> dict[str, Any]:
        """Return the figures of a part with date and command, or why it was not measured."""
        say(f"-- {name}")
        about = {
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "command": " ".join(["python -m benches", *self.arguments.given]),
        }
        try:
            figures: dict[str, Any] = getattr(self, name)()
        except BenchError as error:
            say(f"{name}: {error}")
            return about | {"not_measured": str(error)}
        return about | figures

    def matrix(self) -> dict[str, Any]:
        """Measure all cases and contenders."""
        options = self.arguments
        field = Field(self.server, self.child, profile=options.profile)
        cases = all_cases(options.scripts, options.clients, options.transports)
        until_s = time.monotonic() + options.budget * 60
        matrix = Matrix()
        for required in (True, False):
            run_matrix(
                matrix,
                [case for case in cases if has_requirement(case) == required],
                field.of,
                rounds=options.rounds,
                seconds=options.seconds,
                until_s=until_s,
                before_case=self.server.tidy,
                say=say,
            )
        return {"missing": field.skipped, "rows": matrix_json(matrix)}

    def whole(self) -> dict[str, Any]:
        """Measure whole processes, for at least five seconds each."""
        options = self.arguments
        clients = [each for each in options.clients if each in WHOLE_CLIENTS] or [8]
        seconds = math.ceil(5 * options.seconds)
        matrix = whole_processes(
            self.server, clients, rounds=options.rounds, seconds=seconds, say=say
        )
        shortest = shortest_runs(self.server, runs=2 * options.rounds)
        return {"rows": matrix_json(matrix), "shortest": [asdict(each) for each in shortest]}

    def openloop(self) -> dict[str, Any]:
        """Measure the lateness of open loops at half of the capacity."""
        options = self.arguments
        loops = OpenLoops(self.server, self.child, threads=sorted({1, CORES}))
        rows = loops.measure(
            self._cases(), rounds=options.rounds, seconds=max(options.seconds, 1.0), say=say
        )
        return {"rows": rows}

    def acks(self) -> dict[str, Any]:
        """Measure the cost of the ack ledger."""
        pairs, seconds = self._pairs(), self.arguments.seconds
        rows = acks_cost(self.server, self.child, self._cases(), pairs=pairs, seconds=seconds)
        return {"rows": rows}

    def probes(self) -> dict[str, Any]:
        """Measure the cost of all probes."""
        options = self.arguments
        scripts = [case.script for case in self._cases()]
        pairs = self._pairs()
        costs = probe_cost(scripts, pairs=pairs, slice_s=options.seconds, scale=options.scale)
        return {
            "pairs": pairs,
            "effects": {script: asdict(cost.throughput) for script, cost in costs.items()},
            "cpu_shares": {script: cost.cpu_share for script, cost in costs.items()},
        }

    def memory(self) -> dict[str, Any]:
        """Measure memory per connection, and the rate of connecting."""
        program = bare_program(self.arguments.profile)
        return {"rows": memory_per_connection(program, self.arguments.crowd)}

    def storm(self) -> dict[str, Any]:
        """Measure connecting to PostgreSQL: clients at once, and a connection per transaction."""
        options = self.arguments
        rounds, seconds = options.rounds, options.seconds
        return {
            "at_once": storm(self.server, self.child, options.storm, pairs=self._pairs()),
            "reconnecting": reconnecting(
                self.server, self.child, 8, rounds=rounds, seconds=seconds
            ),
        }

    def recording(self) -> dict[str, Any]:
        """Measure the cost of recording a disk."""
        options = self.arguments
        # The script that writes most per transaction.
        cases = [case for case in self._cases() if case.script == SCRIPTS[-1]]
        if not cases:
            raise BenchError(f"this part needs {SCRIPTS[-1]}, which --scripts excludes")
        rows = recording_cost(
            self.child, cases, scale=options.scale, pairs=self._pairs(), seconds=options.seconds
        )
        return {"rows": rows}

    def _pairs(self) -> int:
        """Return the number of pairs: differences of a few per cent need more than large ones."""
        rounds: int = self.arguments.rounds
        return 3 * rounds

    def _cases(self) -> list[Case]:
        """Return the cases with the largest and the smallest share of the client."""
        clients = min(64, max(self.arguments.clients))
        scripts = (SCRIPTS[0], SCRIPTS[-1])
        return [Case(it, clients, "unix") for it in scripts if it in self.arguments.scripts]
