"""The bare loop, built from ``benches/bare``: the minimum that any client needs."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from benches.processes import run_to_end
from benches.sample import BenchError, Case, Sample, Transport, plausible
from benches.server import BenchServer
from pgdyno.server import ConnInfo

Reactor = Literal["epoll", "io_uring"]
Profile = Literal["release", "dev"]
REACTORS: tuple[Reactor, ...] = get_args(Reactor)
ROOT = Path(__file__).parents[1]
_TIMEOUT_BESIDE_S = 120


@cache
def bare_program(profile: Profile) -> str:
    """Return the path of the program, which is built if necessary."""
    argv = [os.environ.get("CARGO", "cargo"), "build", "-p", "pgdyno-bare", "--profile", profile]
    argv += ["--message-format", "json-render-diagnostics"]
    try:
        done = subprocess.run(argv, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchError(f"the bare loop cannot be built: {error}") from None
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    return next(str(m["executable"]) for m in messages if m.get("executable"))


def address_options(conninfo: ConnInfo) -> list[str]:
    """Return a server's address as options of the program."""
    where = "--socket" if conninfo.is_socket else "--host"
    return [where, conninfo.host, "--port", str(conninfo.port)]


class Bare(Struct, frozen=True):
    """The bare loop on one reactor. CPU: its own, from the first answer of the last client."""

    server: BenchServer
    reactor: Reactor
    program: str

    @property
    def name(self) -> str:
        """Name in the results."""
        return f"bare {self.reactor}"

    def measure(self, case: Case, seconds: float) -> Sample:
        """Measure one slice."""
        argv = [
            *(self.program, "load", *self._address(case.transport)),
            *("--script", case.script, "--scale", str(self.server.scale)),
            *("--clients", str(case.clients), "--seconds", str(seconds)),
            *("--reactor", self.reactor),
        ]
        measured = json.loads(run_to_end(argv, timeout_s=seconds + _TIMEOUT_BESIDE_S).stdout)
        keys = ("transactions", "seconds", "cpu_user_s", "cpu_system_s")
        return plausible(Sample(*(measured[key] for key in keys)), self.name)

    def _address(self, transport: Transport) -> list[str]:
        conninfo = self.server.conninfo(transport)
        who = ["--user", conninfo.user, "--database", conninfo.database]
        return [*address_options(conninfo), *who]
