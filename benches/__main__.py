"""``python -m benches``: pgdyno against its peers, in one run; writes the results and their page.

The figures are ratios within one run; absolute speeds say more about the machine than about pgdyno.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.acks import acks_cost
from benches.connections import memory_per_connection, reconnecting, storm
from benches.engine import EngineChild
from benches.floor import ROOT, bare_program
from benches.machine import machine_facts
from benches.matrix import CORES, Field, all_cases, run_matrix
from benches.openloop import OpenLoops
from benches.page import page
from benches.probe_cost import probe_cost
from benches.profiling import profile
from benches.results import RESULTS, matrix_json, write_results
from benches.sample import SCRIPTS, TRANSPORTS, BenchError, Case
from benches.server import BenchServer, bench_server

PAGE = ROOT / "docs" / "benchmarks.md"
PARTS = ("matrix", "openloop", "acks", "probes", "memory", "storm")
CLIENTS = (1, 8, 64, 256, 1000)
_SCALE = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write, print; the exit status."""
    given = sys.argv[1:] if argv is None else list(argv)
    _raise_open_files()
    try:
        if given[:1] == ["profile"]:
            print(profile(given[1:]))
        else:
            _bench(given)
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _bench(given: Sequence[str]) -> None:
    arguments = _parser().parse_args(given)
    arguments.given = given
    results = _measure(arguments)
    write_results(arguments.output, results)
    text = page(arguments.output)
    arguments.page.write_text(text)
    print(text)


def _measure(arguments: argparse.Namespace) -> dict[str, Any]:
    command = " ".join(["python -m benches", *arguments.given])
    results: dict[str, Any] = {"machine": machine_facts(), "command": command}
    clients_max = max(*arguments.clients, arguments.storm)
    with (
        bench_server(clients_max=clients_max, scale=arguments.scale) as server,
        EngineChild() as child,
    ):
        bench = Bench(arguments, server, child)
        for part in PARTS:
            if part in arguments.only:
                say(f"-- {part}")
                results |= bench.part(part)
    return results


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Bench:
    """The parts, each of which returns what it adds to the results."""

    arguments: argparse.Namespace
    server: BenchServer
    child: EngineChild

    def part(self, name: str) -> dict[str, Any]:
        """Measure a part; one that is not possible here says why in the results."""
        try:
            added: dict[str, Any] = getattr(self, name)()
        except BenchError as error:
            say(f"{name}: {error}")
            return {f"{name}_skipped": str(error)}
        return added | {f"{name}_skipped": None}

    def matrix(self) -> dict[str, Any]:
        """Every case, every contender."""
        options = self.arguments
        field = Field(self.server, self.child, profile=options.profile)
        matrix = run_matrix(
            field.of,
            all_cases(options.scripts, options.clients, options.transports),
            rounds=options.rounds,
            seconds=options.seconds,
            until_s=time.monotonic() + options.budget * 60,
            between=self.server.tidy,
            say=say,
        )
        return {"skipped": field.skipped, "matrix": matrix_json(matrix)}

    def openloop(self) -> dict[str, Any]:
        """Accuracy at half of the capacity."""
        options = self.arguments
        loops = OpenLoops(self.server, self.child, threads=sorted({1, CORES}))
        rows = loops.measure(
            self._cases(), rounds=options.rounds, seconds=max(options.seconds, 1.0), say=say
        )
        return {"openloop": rows}

    def acks(self) -> dict[str, Any]:
        """Cost of the record of acknowledged commits."""
        pairs, seconds = self._pairs(), self.arguments.seconds
        rows = acks_cost(self.server, self.child, self._cases(), pairs=pairs, seconds=seconds)
        return {"acks": rows}

    def probes(self) -> dict[str, Any]:
        """Cost of all probes."""
        options = self.arguments
        scripts = [case.script for case in self._cases()]
        pairs = self._pairs()
        effects = probe_cost(scripts, pairs=pairs, slice_s=options.seconds, scale=options.scale)
        return {"probes": {script: vars(effect) for script, effect in effects.items()}}

    def memory(self) -> dict[str, Any]:
        """Memory for each of many connections, and how fast they are made."""
        program = bare_program(self.arguments.profile)
        return {"memory": memory_per_connection(program, self.arguments.crowd)}

    def storm(self) -> dict[str, Any]:
        """Connections to PostgreSQL, many at once and one per transaction."""
        options = self.arguments
        return {
            "storm": storm(self.server, self.child, options.storm),
            "reconnecting": reconnecting(self.server, self.child, 8, options.seconds),
        }

    def _pairs(self) -> int:
        """A few per cent take more pairs to see than half of everything."""
        rounds: int = self.arguments.rounds
        return 3 * rounds

    def _cases(self) -> list[Case]:
        """Where the client weighs most, and where it weighs least."""
        clients = min(64, max(self.arguments.clients))
        scripts = (SCRIPTS[0], SCRIPTS[-1])
        return [Case(it, clients, "unix") for it in scripts if it in self.arguments.scripts]


def _raise_open_files() -> None:
    """Every contender inherits the limit; 1,000 connections are more than the usual one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)

    def several(name: str, choices: Sequence[Any], what: str) -> None:
        kind = type(choices[0])

        def read(text: str) -> list[Any]:
            values = [kind(word) for word in text.split(",")]
            if kind is str and (unknown := set(values) - set(choices)):
                raise argparse.ArgumentTypeError(f"no {', '.join(sorted(unknown))} here")
            return values

        parser.add_argument(name, type=read, default=list(choices), metavar="A,B", help=what)

    several("--only", PARTS, f"parts to measure, of {','.join(PARTS)}")
    several("--scripts", SCRIPTS, "workloads of the matrix")
    several("--clients", CLIENTS, "numbers of clients of the matrix")
    several("--transports", TRANSPORTS, "kinds of socket of the matrix")
    parser.add_argument("--rounds", type=int, default=6, help="pairs to measure")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a slice")
    parser.add_argument("--budget", type=float, default=25, metavar="MIN", help="for the matrix")
    parser.add_argument("--scale", type=int, default=_SCALE)
    parser.add_argument("--crowd", type=int, default=10_000, help="connections to weigh")
    parser.add_argument("--storm", type=int, default=1_000, help="connections made at once")
    parser.add_argument("--output", type=Path, default=RESULTS, help="the results, JSON")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page made of them")
    parser.add_argument("--profile", choices=("release", "dev"), default="release")
    return parser


if __name__ == "__main__":
    sys.exit(main())
