"""``python -m benches``: pgdyno against its peers, in one run; writes the results and their page.

The figures are ratios within one run; absolute speeds say more about the machine than about pgdyno.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benches.engine import EngineChild
from benches.floor import ROOT
from benches.machine import machine_facts
from benches.matrix import Field, all_cases, run_matrix
from benches.page import page
from benches.probe_cost import probe_cost
from benches.results import RESULTS, matrix_json, write_results
from benches.sample import SCRIPTS, TRANSPORTS, BenchError
from benches.server import bench_server

PAGE = ROOT / "docs" / "benchmarks.md"
PARTS = ("matrix", "probes")
CLIENTS = (1, 8, 64, 256, 1000)
_SCALE = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write, print; the exit status."""
    given = sys.argv[1:] if argv is None else list(argv)
    arguments = _parser().parse_args(given)
    arguments.given = given
    _raise_open_files()
    try:
        results = _measure(arguments)
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    write_results(arguments.output, results)
    text = page(arguments.output)
    arguments.page.write_text(text)
    print(text)
    return 0


def _measure(arguments: argparse.Namespace) -> dict[str, Any]:
    command = " ".join(["python -m benches", *arguments.given])
    results: dict[str, Any] = {"machine": machine_facts(), "command": command}
    if "matrix" in arguments.only:
        results |= _matrix(arguments)
    if "probes" in arguments.only:
        effects = probe_cost(pairs=arguments.rounds, slice_s=arguments.seconds)
        results["probes"] = {script: vars(effect) for script, effect in effects.items()}
    return results


def _matrix(arguments: argparse.Namespace) -> dict[str, Any]:
    until_s = time.monotonic() + arguments.budget * 60
    cases = all_cases(arguments.scripts, arguments.clients, arguments.transports)
    with (
        bench_server(clients_max=max(arguments.clients), scale=arguments.scale) as server,
        EngineChild() as child,
    ):
        field = Field(server, child, profile=arguments.profile)
        matrix = run_matrix(
            field.of,
            cases,
            rounds=arguments.rounds,
            seconds=arguments.seconds,
            until_s=until_s,
            between=server.tidy,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
    return {"skipped": field.skipped, "matrix": matrix_json(matrix)}


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
    parser.add_argument("--output", type=Path, default=RESULTS, help="the results, JSON")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page made of them")
    parser.add_argument("--profile", choices=("release", "dev"), default="release")
    return parser


if __name__ == "__main__":
    sys.exit(main())
