"""Captures that tests take: clients that they count, and how far the clone of one is alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from psycopg.conninfo import make_conninfo

from pgdyno.capture import CaptureRequest, alike, capture
from pgdyno.check import Where
from pgdyno.clone import Capture
from pgdyno.clone.likeness import Likeness
from pgdyno.conduct import Silent
from pgdyno.imports import Choices, fields_with_texts, read_foreign
from pgdyno.server import Cluster, ConnInfo, connect_plain
from pgdyno.spec import Spec, spec_from_fields

WATCHER = {"user": "watcher", "password": "hush"}
"""A role of tests, in pg_monitor alone."""


def as_client(server: ConnInfo, **values: str) -> dict[str, Any]:
    """Return the values for a connection that is not one of pgdyno's, which no capture counts."""
    return {**server.kwargs(), "application_name": None, **values}


def source_with(new_cluster: Callable[..., Cluster], schema: str) -> Cluster:
    """Start a server that counts statements, and execute those of a schema: each ends with a
    line."""
    cluster = new_cluster(18, shared_preload_libraries="pg_stat_statements")
    with connect_plain(cluster.conninfo) as connection:
        for each in schema.split(";\n")[:-1]:
            connection.execute(each.encode())
    return cluster


def capture_of(
    server: ConnInfo,
    path: Path,
    seconds: float,
    logs: tuple[Path, ...] = (),
    *,
    rename: bool = False,
    **values: str,
) -> Capture:
    """Capture the load of a server, as a role of these values."""
    where = Where(make_conninfo("", **as_client(server, **values)))
    return capture(CaptureRequest(where, seconds, path, logs, rename), Silent())


def spec_of(path: Path) -> Spec:
    """Return the spec of a capture's clone, on a server that counts statements."""
    fields = fields_with_texts(read_foreign(path, Choices()))
    return spec_from_fields({**fields, "server": {"statements": True}})


def likeness_of(found: Capture, path: Path, seconds: float) -> Likeness:
    """Make the clone of a capture, and return how far it is alike."""
    return alike(found, spec_of(path), seconds, Silent())
