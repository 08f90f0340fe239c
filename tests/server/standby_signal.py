"""A server that is started as a standby, without a primary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pgdyno.server import Cluster
from pgdyno.server.local.account import run_as, server_account


@contextmanager
def as_standby(cluster: Cluster) -> Iterator[None]:
    """Within the block the server is in recovery."""
    cluster.stop()
    signal_file = cluster.data_dir / "standby.signal"
    assert run_as(server_account(), ["touch", signal_file]).returncode == 0
    cluster.start()
    try:
        yield
    finally:
        cluster.stop()
        signal_file.unlink()
        cluster.start()
