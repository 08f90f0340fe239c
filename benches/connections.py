"""Many connections: memory for each, how fast they are made, and what making one costs.

Ten thousand connect to the least of a server (``benches/bare``), since no PostgreSQL of this size
carries so many. How fast they are made is also measured on PostgreSQL, where its forking counts.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from benches.engine import EngineChild, config_for
from benches.floor import address_options
from benches.pgbench import Pgbench
from benches.sample import BenchError, Case
from benches.server import BenchServer
from pgdyno.server import ConnInfo

_THINK = "200ms"


@contextmanager
def least_server(program: str) -> Iterator[ConnInfo]:
    """The least of a server, on a Unix socket."""
    with tempfile.TemporaryDirectory() as folder:
        conninfo = ConnInfo(folder, 5432, "bench", None, "bench")
        process = subprocess.Popen(
            [program, "serve", *address_options(conninfo)], stdout=subprocess.PIPE, text=True
        )
        with process:
            try:
                assert process.stdout is not None
                if not json.loads(process.stdout.readline() or "{}").get("ready"):
                    raise BenchError("the least of a server did not start")
                yield conninfo
            finally:
                process.kill()


def memory_per_connection(program: str, clients: int) -> list[dict[str, Any]]:
    """Memory of pgdyno's process for each of ``clients`` connections: idle, and after use."""
    rows = []
    case = Case("select-only", 1, "unix")
    for idle in (True, False):
        with least_server(program) as conninfo, EngineChild() as child:
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


def storm(server: BenchServer, child: EngineChild, clients: int) -> dict[str, Any]:
    """All clients at once: seconds until the last is connected, beside pgbench."""
    case = Case("select-only", clients, "unix")
    said = child.ask("storm", config_for(server.conninfo("unix"), case, server.scale))
    pgbench = Pgbench(server, 1).run(case, "-t", "1")
    ready: Mapping[str, float] = said["ready"]
    return {
        "clients": clients,
        "pgdyno_s": round(said["connect_s"], 4),
        "pgbench_s": round(pgbench.connect_s, 4),
        **{f"ready_{key}": round(value, 1) for key, value in ready.items()},
    }


def reconnecting(
    server: BenchServer, child: EngineChild, clients: int, seconds: float
) -> dict[str, Any]:
    """A connection for each transaction: per second, and the client's CPU for each; ``pgbench -C``
    beside it."""
    case = Case("select-only", clients, "unix")
    group = {"connection": "per-transaction"}
    config = config_for(server.conninfo("unix"), case, server.scale, group=group)
    ours = child.ask("slice", config, seconds=seconds)
    theirs = Pgbench(server, 1).run(case, "-C", "-T", str(max(1, round(seconds)))).sample
    cpu_s = ours["cpu_user_s"] + ours["cpu_system_s"]
    return {
        "clients": clients,
        "pgdyno_per_s": round(ours["transactions"] / ours["seconds"]),
        "pgdyno_cpu_us": round(cpu_s / ours["transactions"] * 1e6, 1),
        "pgbench_per_s": round(theirs.throughput_tps),
        "pgbench_cpu_us": round(theirs.cpu_us, 1),
    }
