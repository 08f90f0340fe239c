"""pgbench's tables for tests that need nothing else."""

from __future__ import annotations

from pgdyno.server import ConnInfo, connect_plain
from pgdyno.spec.workload import InitSpec
from pgdyno.workload._pgbench import Making


def make_pgbench_tables(conninfo: ConnInfo, scale: int = 1) -> None:
    """Make the four tables in an empty database."""
    with connect_plain(conninfo) as conn:
        Making(conn, scale, InitSpec(), lambda *_: None).make()
