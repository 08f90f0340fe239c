"""The parts of a benchmark run, each with what it adds to the results."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import Any

from benches.acks import acks_cost
from benches.connections import memory_per_connection, reconnecting, storm
from benches.engine import EngineChild
from benches.floor import bare_program
from benches.matrix import CORES, Field, Matrix, all_cases, is_asked, run_matrix
from benches.openloop import OpenLoops
from benches.probe_cost import probe_cost
from benches.recording import recording_cost
from benches.results import matrix_json
from benches.sample import SCRIPTS, BenchError, Case
from benches.server import BenchServer

PARTS = ("matrix", "openloop", "acks", "probes", "memory", "storm", "recording")


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Parts:
    """A method for each of ``PARTS``; ``arguments`` are those of the command line."""

    arguments: argparse.Namespace
    server: BenchServer
    child: EngineChild

    def measure(self, name: str) -> dict[str, Any]:
        """A part's figures, when and how they were measured; or why it is not possible here."""
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
        """Every case, every contender."""
        options = self.arguments
        field = Field(self.server, self.child, profile=options.profile)
        cases = all_cases(options.scripts, options.clients, options.transports)
        until_s = time.monotonic() + options.budget * 60
        matrix = Matrix()
        for asked in (True, False):
            run_matrix(
                matrix,
                [case for case in cases if is_asked(case) == asked],
                field.of,
                rounds=options.rounds,
                seconds=options.seconds,
                until_s=until_s,
                before_case=self.server.tidy,
                say=say,
            )
        return {"missing": field.skipped, "rows": matrix_json(matrix)}

    def openloop(self) -> dict[str, Any]:
        """Accuracy at half of the capacity."""
        options = self.arguments
        loops = OpenLoops(self.server, self.child, threads=sorted({1, CORES}))
        rows = loops.measure(
            self._cases(), rounds=options.rounds, seconds=max(options.seconds, 1.0), say=say
        )
        return {"rows": rows}

    def acks(self) -> dict[str, Any]:
        """Cost of the record of acknowledged commits."""
        pairs, seconds = self._pairs(), self.arguments.seconds
        rows = acks_cost(self.server, self.child, self._cases(), pairs=pairs, seconds=seconds)
        return {"rows": rows}

    def probes(self) -> dict[str, Any]:
        """Cost of all probes."""
        options = self.arguments
        scripts = [case.script for case in self._cases()]
        pairs = self._pairs()
        effects = probe_cost(scripts, pairs=pairs, slice_s=options.seconds, scale=options.scale)
        return {"effects": {script: vars(effect) for script, effect in effects.items()}}

    def memory(self) -> dict[str, Any]:
        """Memory for each of many connections, and how fast they are made."""
        program = bare_program(self.arguments.profile)
        return {"rows": memory_per_connection(program, self.arguments.crowd)}

    def storm(self) -> dict[str, Any]:
        """Connections to PostgreSQL, many at once and one per transaction."""
        options = self.arguments
        rounds, seconds = options.rounds, options.seconds
        return {
            "at_once": storm(self.server, self.child, options.storm, rounds=rounds),
            "reconnecting": reconnecting(
                self.server, self.child, 8, rounds=rounds, seconds=seconds
            ),
        }

    def recording(self) -> dict[str, Any]:
        """Cost of recording all that is written to a disk."""
        options = self.arguments
        # The script that writes most for each transaction.
        cases = [case for case in self._cases() if case.script == SCRIPTS[-1]]
        if not cases:
            raise BenchError(f"only {SCRIPTS[-1]} writes enough, and it was not asked for")
        rows = recording_cost(
            self.child, cases, scale=options.scale, pairs=self._pairs(), seconds=options.seconds
        )
        return {"rows": rows}

    def _pairs(self) -> int:
        """A few per cent take more pairs to see than half of everything."""
        rounds: int = self.arguments.rounds
        return 3 * rounds

    def _cases(self) -> list[Case]:
        """Where the client weighs most, and where it weighs least."""
        clients = min(64, max(self.arguments.clients))
        scripts = (SCRIPTS[0], SCRIPTS[-1])
        return [Case(it, clients, "unix") for it in scripts if it in self.arguments.scripts]
