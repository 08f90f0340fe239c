"""The server that all contenders load: the newest PostgreSQL, with pgbench's tables.

Causes of differences other than the client are turned off: waits for the disk at commit,
checkpoints, autovacuum. Both sockets use trust authentication, so that no passwords are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.sample import Transport
from pgdyno.server import (
    Cluster,
    ConnInfo,
    DiskDirectories,
    Installation,
    connect,
    discover_installations,
)
from pgdyno.spec import spec_from_fields
from pgdyno.workload import load_workloads, prepare

SETTINGS = {
    "shared_buffers": "256MB",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "max_wal_size": "16GB",
}
_CONNECTIONS_BESIDE = 30
_TRUST = "local all all trust\nhost all all 127.0.0.1/32 trust\n"


@dataclass(frozen=True)
class BenchServer:
    """A running server with pgbench's tables."""

    cluster: Cluster
    scale: int

    def conninfo(self, transport: Transport) -> ConnInfo:
        """Return its connection parameters."""
        return self.cluster.conninfo if transport == "unix" else self.cluster.conninfo_tcp

    def tidy(self) -> None:
        """Do what a run of pgbench begins with: empty the history, and vacuum the small tables."""
        with connect(self.cluster.conninfo) as conn:
            conn.execute("vacuum pgbench_branches, pgbench_tellers")
            conn.execute("truncate pgbench_history")
            conn.execute("checkpoint")


def newest_installation() -> Installation:
    """Return the newest PostgreSQL on this machine, whose pgbench is measured."""
    return max(discover_installations(), key=lambda one: one.version_num)


@contextmanager
def bench_server(
    *,
    clients_max: int,
    scale: int,
    settings: Mapping[str, str] = SETTINGS,
    disks: Callable[[Path], DiskDirectories] | None = None,
) -> Iterator[BenchServer]:
    """Run a server for ``clients_max`` clients, and as many earlier ones that still disconnect."""
    settings = {**settings, "max_connections": str(2 * clients_max + _CONNECTIONS_BESIDE)}
    workload = {"script": "tpcb-like", "scale": scale}
    spec = spec_from_fields({"name": "bench", "workload": workload})
    with Cluster.create(newest_installation(), settings, disks=disks) as cluster:
        (cluster.directory / "pg_hba.conf").write_text(_TRUST)
        with connect(cluster.conninfo) as conn:
            conn.execute("select pg_reload_conf()")
        prepare(cluster.conninfo, load_workloads(spec).values(), spec.workload, lambda *_: None)
        yield BenchServer(cluster, scale)
