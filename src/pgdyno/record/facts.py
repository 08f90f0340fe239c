"""Types of the JSON columns of a run file. A key is absent where its fact is not known."""

from __future__ import annotations

from typing import TypedDict

from pgdyno.json_types import Json


class PoolerPairs(TypedDict):
    """The pairs of user and database that have a pool in a PgBouncer."""

    count: int
    connections: int
    """The most that their pools make together."""
    free: int
    """Connections that the server has for them."""


class ServerFacts(TypedDict, total=False):
    """Facts of the server at the start of a run."""

    version: str
    version_num: int
    note: str | None
    """Warning about a version newer than the supported ones."""
    kind: str
    """embedded or existing."""
    installation: str
    snapshot: str | None
    """The snapshot that the server started from."""
    superuser: bool
    monitor: bool
    """Membership in pg_monitor."""
    in_recovery: bool
    database: str
    database_bytes: int
    database_named: str | None
    """The database that the user named, if any."""
    data_directory: str | None
    started_epoch_s: float
    settings: dict[str, str]
    altered: list[str] | None
    """Settings that ALTER SYSTEM has set; None: this role may not see which."""
    capabilities: dict[str, bool]
    is_local: bool
    """True if its processes are on this machine."""
    postmaster_pid: int | None
    cores: float | None
    uri: str
    """URI without the password."""
    tables: str | None
    """made, kept or theirs."""
    standby: Json
    """Facts of the standbys."""
    pooler: Json | None
    """The pooler that pgdyno started: its title, kind, settings and URI."""
    front: Json | None
    """The front end that pgdyno started: its keys in the spec, URL, versions of its parts."""
    entrance_uri: str | None
    """URI of the pooler in front of the server, if any."""
    pooler_pairs: PoolerPairs | None
    """The pools of the user's own PgBouncer, if it tells."""


def is_pooled(server: ServerFacts) -> bool:
    """True if clients connect to a pooler, one that pgdyno started or the user's own."""
    return bool(server.get("pooler") or server.get("entrance_uri"))


class HostFacts(TypedDict, total=False):
    """Facts of the machine that pgdyno runs on."""

    cores: float
    """CPUs that the server, or pgdyno, may use."""
    cores_host: int
    memory_bytes: int
    memory_host_bytes: int
    kernel: str
    machine: str
    cpu_model: str | None
    virtualised: bool
    container: bool
    sees_all_processes: bool
    """True if no process of the machine is hidden from pgdyno."""
    filesystem: dict[str, Json]
    """``data`` and ``wal`` → facts of the file system."""
    same_host_as_server: bool


class EngineFacts(TypedDict, total=False):
    """Facts of the load engine."""

    version: str
    profile: str
    target: str
    threads: int
    protocol: str
    reactor: str
    reactor_why: str
    cpus: list[int] | None
    nice: int | None
