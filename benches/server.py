"""The server that all contenders load: the newest PostgreSQL, with pgbench's tables.

Causes of differences other than the client are turned off: waits for the disk at commit,
checkpoints, autovacuum. Both sockets use trust authentication, so that no passwords are checked,
except for the role that has one, with SCRAM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from benches.sample import Transport
from pgdyno.server import (
    Cluster,
    ConnInfo,
    DiskDirectories,
    Installation,
    connect_plain,
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
_SCRAM_ROLE = "bench_scram"
_PASSWORD = "bench"
_HBA = f"""local all {_SCRAM_ROLE} scram-sha-256
local all all trust
host all all 127.0.0.1/32 trust
"""

Auth = Literal["trust", "scram"]
AUTHS: tuple[Auth, ...] = ("trust", "scram")


class BenchServer(Struct, frozen=True):
    """A running server with pgbench's tables."""

    cluster: Cluster
    scale: int

    def conninfo(self, transport: Transport) -> ConnInfo:
        """Return its connection parameters."""
        return self.cluster.conninfo if transport == "unix" else self.cluster.conninfo_tcp

    def conninfo_of(self, auth: Auth) -> ConnInfo:
        """Return the connection parameters for connections without or with a password."""
        if auth == "trust":
            return self.cluster.conninfo
        return replace(self.cluster.conninfo, user=_SCRAM_ROLE, password=_PASSWORD)

    def tidy(self) -> None:
        """Do what a run of pgbench begins with: empty the history, and vacuum the small tables."""
        with connect_plain(self.cluster.conninfo) as conn:
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
        (cluster.directory / "pg_hba.conf").write_text(_HBA)
        with connect_plain(cluster.conninfo) as conn:
            conn.execute("set password_encryption = 'scram-sha-256'")
            conn.execute(f"create role {_SCRAM_ROLE} superuser login password '{_PASSWORD}'")
            conn.execute("select pg_reload_conf()")
        prepare(cluster.conninfo, load_workloads(spec).values(), spec.workload, lambda *_: None)
        yield BenchServer(cluster, scale)
