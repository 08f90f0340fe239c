"""Many connections: memory per connection, and rate and CPU of connecting.

Ten thousand clients connect to a minimal server (``benches/bare``), since PostgreSQL on such a
machine does not support so many. The rate is also measured on PostgreSQL, with its forks.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

from msgspec.structs import asdict

from benches.engine import EngineChild, config_for
from benches.floor import address_options
from benches.pgbench import Pgbench
from benches.sample import BenchError, Case, Sample
from benches.server import AUTHS, BenchServer
from pgdyno.server import ConnInfo
from pgdyno.stats import paired_effect

_THINK = "200ms"


@contextmanager
def minimal_server(program: str) -> Iterator[ConnInfo]:
    """Run the minimal server, on a Unix socket."""
    with tempfile.TemporaryDirectory() as directory:
        conninfo = ConnInfo(directory, 5432, "bench", None, "bench")
        process = subprocess.Popen(
            [program, "serve", *address_options(conninfo)], stdout=subprocess.PIPE, text=True
        )
        with process:
            try:
                assert process.stdout is not None
                if not json.loads(process.stdout.readline() or "{}").get("ready"):
                    raise BenchError("the minimal server did not start")
                yield conninfo
            finally:
                process.kill()


def memory_per_connection(program: str, clients: int) -> list[dict[str, Any]]:
    """Return the memory of pgdyno's process per connection, of idle and of used connections."""
    rows = []
    case = Case("select-only", 1, "unix")
    for idle in (True, False):
        with minimal_server(program) as conninfo, EngineChild() as child:
            config = config_for(conninfo, case, 1, group={} if idle else {"think": _THINK})
            if idle:
                config["groups"][0]["idle"] = True
            said = child.ask("crowd", config, clients=clients, idle=idle)
        rows.append(
            {
                "clients": clients,
                "use": "idle" if idle else "after use",
                "bytes_per_connection": round(said["bytes"] / (clients - 1)),
                "connects_per_s": round((clients - 1) / said["connect_s"]),
            }
        )
    return rows


def storm(
    server: BenchServer, child: EngineChild, clients: int, *, pairs: int
) -> list[dict[str, Any]]:
    """Return the seconds until all clients are connected, for pgdyno and pgbench, without and with
    passwords: medians, and the ratio pgdyno/pgbench by pairs.

    Connecting alone: pgbench begins its transactions when all are connected, and pgdyno's clients
    have none.
    """
    case = Case("select-only", clients, "unix")
    rng = random.Random(4)
    rows = []
    for auth in AUTHS:
        conninfo = server.conninfo_of(auth)
        config = config_for(conninfo, case, server.scale)
        config["groups"][0]["idle"] = True
        ours_of = partial(child.ask, "storm", config)
        theirs_of = partial(Pgbench(server, 1).run, case, "-t", "1", conninfo=conninfo)
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(pairs):
            for side in rng.sample([0, 1], 2):
                seconds[side].append(theirs_of().connect_s if side else ours_of()["connect_s"])
        ours, theirs = seconds
        rows.append(
            {
                "clients": clients,
                "auth": auth,
                "pgdyno_s": round(median(ours), 4),
                "pgbench_s": round(median(theirs), 4),
                "effect": asdict(paired_effect(theirs, ours)),
            }
        )
    return rows


def reconnecting(
    server: BenchServer, child: EngineChild, clients: int, *, rounds: int, seconds: float
) -> dict[str, Any]:
    """Return rate and CPU of transactions with a connection each, for pgdyno and ``pgbench -C``;
    medians."""
    case = Case("select-only", clients, "unix")
    group = {"connection": "per-transaction"}
    config = config_for(server.conninfo("unix"), case, server.scale, group=group)
    duration = str(max(1, round(seconds)))
    ours: list[Sample] = []
    theirs: list[Sample] = []
    for _ in range(rounds):
        ours.append(Sample(**child.ask("slice", config, seconds=seconds)))
        theirs.append(Pgbench(server, 1).run(case, "-C", "-T", duration).sample)
    return {
        "clients": clients,
        "pgdyno_per_s": round(median(one.throughput_tps for one in ours), 1),
        "pgdyno_cpu_us": round(median(one.cpu_us for one in ours), 1),
        "pgbench_per_s": round(median(one.throughput_tps for one in theirs), 1),
        "pgbench_cpu_us": round(median(one.cpu_us for one in theirs), 1),
    }
