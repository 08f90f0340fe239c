"""``python -m benches``: measure pgdyno and its peers in one run; write the results and the page.

The figures are ratios within one run; absolute speeds depend on the machine.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benches.engine import EngineChild
from benches.floor import ROOT
from benches.machine import machine_facts
from benches.page import page
from benches.parts import PARTS, Parts
from benches.profiling import profile
from benches.results import RESULTS, write_part
from benches.sample import SCRIPTS, TRANSPORTS, BenchError
from benches.server import bench_server
from pgdyno.__main__ import GC_THRESHOLD
from pgdyno.errors import PgdynoError

PAGE = ROOT / "docs" / "benchmarks.md"
CLIENTS = (1, 8, 64, 256, 1000)
_WHOLE = {"scripts": SCRIPTS, "clients": CLIENTS, "transports": TRANSPORTS}
"""Options of a run that replaces the published results."""
_SCALE = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write and print the results; return the exit status."""
    given = sys.argv[1:] if argv is None else list(argv)
    _raise_open_files()
    gc.set_threshold(GC_THRESHOLD)  # as in a process of pgdyno
    try:
        if given[:1] == ["profile"]:
            print(profile(given[1:]))
        else:
            _bench(given)
    except (BenchError, PgdynoError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _bench(given: Sequence[str]) -> None:
    arguments = _parser().parse_args(given)
    arguments.given = given
    whole = all(getattr(arguments, name) == list(all_) for name, all_ in _WHOLE.items())
    output = arguments.output or (RESULTS if whole else RESULTS.with_name("partial.json"))
    clients_max = max(*arguments.clients, arguments.storm)
    with (
        bench_server(clients_max=clients_max, scale=arguments.scale) as server,
        EngineChild() as child,
    ):
        parts = Parts(arguments, server, child)
        facts = machine_facts()
        for name in PARTS:
            if name in arguments.only:
                write_part(output, facts, name, parts.measure(name))
    text = page(output)
    (arguments.page or (PAGE if whole else output.with_suffix(".md"))).write_text(text)
    print(text)


def _raise_open_files() -> None:
    """Raise the limit of open files, which contenders inherit, for 1,000 connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)

    def several(name: str, choices: Sequence[Any], what: str) -> None:
        kind = type(choices[0])

        def read(text: str) -> list[Any]:
            values = [kind(word) for word in text.split(",")]
            if kind is str and (unknown := set(values) - set(choices)):
                raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
            return values

        parser.add_argument(name, type=read, default=list(choices), metavar="A,B", help=what)

    several("--only", PARTS, f"parts to measure, of {','.join(PARTS)}")
    several("--scripts", SCRIPTS, "workloads of the matrix")
    several("--clients", CLIENTS, "numbers of clients of the matrix")
    several("--transports", TRANSPORTS, "kinds of socket of the matrix")
    parser.add_argument("--rounds", type=int, default=6, help="pairs to measure")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a slice")
    parser.add_argument("--budget", type=float, default=21, metavar="MIN", help="for the matrix")
    parser.add_argument("--scale", type=int, default=_SCALE)
    parser.add_argument("--crowd", type=int, default=10_000, help="connections of the part memory")
    parser.add_argument("--storm", type=int, default=1_000, help="clients that connect at once")
    where = "default: the published files for the whole matrix, otherwise partial.*"
    parser.add_argument("--output", type=Path, help=f"file for the results, JSON ({where})")
    parser.add_argument("--page", type=Path, help="file for the page (likewise)")
    parser.add_argument("--profile", choices=("release", "dev"), default="release")
    return parser


if __name__ == "__main__":
    sys.exit(main())
