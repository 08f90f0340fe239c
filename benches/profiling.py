"""CPU profile of the engine: ``python -m benches profile``, with Linux's perf.

Prints shares of CPU time by library and by symbol, while the engine loads a server.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from benches.engine import EngineChild, config_for
from benches.sample import SCRIPTS, TRANSPORTS, BenchError, Case
from benches.server import bench_server

_FREQUENCY_HZ = 1999
_LEAD_IN_S = 1.0
_SYMBOLS = 30
_PLACES = re.compile(r"[\s-]+$")  # columns of callers, which are not recorded


def profile(argv: Sequence[str]) -> str:
    """Return the report. Raises BenchError if perf is missing or is not permitted to record."""
    options = _parser().parse_args(argv)
    case = Case(options.script, options.clients, options.transport)
    with (
        tempfile.TemporaryDirectory() as directory,
        bench_server(clients_max=case.clients, scale=options.scale) as server,
        EngineChild() as child,
    ):
        load = {} if options.reactor == "auto" else {"reactor": options.reactor}
        config = config_for(server.conninfo(case.transport), case, options.scale, load=load)
        child.ask("slice", config, seconds=0.1)  # Imports are not part of the engine's time.
        data = Path(directory) / "perf.data"
        recording = threading.Timer(_LEAD_IN_S, _record, (child.pid, data, options.seconds))
        recording.start()
        said = child.ask("slice", config, seconds=options.seconds + 2 * _LEAD_IN_S)
        recording.join()
        cpu_us = (said["cpu_user_s"] + said["cpu_system_s"]) / said["transactions"] * 1e6
        head = f"{case.script}, c={case.clients}, {case.transport}, {options.reactor}:"
        head += f" {said['transactions'] / said['seconds']:.0f} tps, {cpu_us:.2f} µs each\n"
        return "\n".join([head, _report(data, "dso"), _report(data, "comm,dso,symbol")])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benches profile", description=__doc__)
    parser.add_argument("--script", choices=SCRIPTS, default="select-only")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--transport", choices=TRANSPORTS, default="unix")
    parser.add_argument("--reactor", choices=("auto", "mio", "io_uring"), default="auto")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--scale", type=int, default=10)
    return parser


def _perf(*arguments: str) -> str:
    if shutil.which("perf") is None:
        raise BenchError("perf is not installed")
    done = subprocess.run(["perf", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"perf {arguments[0]}: {done.stderr.strip()[-300:]}")
    return done.stdout


def _record(pid: int, data: Path, seconds: float) -> None:
    options = ["-F", str(_FREQUENCY_HZ), "-p", str(pid), "-o", str(data)]
    _perf("record", *options, "--", "sleep", str(seconds))


def _report(data: Path, sort: str) -> str:
    if not data.exists():
        raise BenchError("perf recorded nothing: check the user's permission (perf_event_paranoid)")
    text = _perf("report", "-i", str(data), "--stdio", "--no-children", "-s", sort)
    lines = [_PLACES.sub("", line) for line in text.splitlines() if line and line[0] != "#"]
    return "\n".join(lines[:_SYMBOLS]) + "\n"
