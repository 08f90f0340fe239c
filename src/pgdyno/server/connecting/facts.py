"""Facts that a server reports about itself: those that a run records (version, rights, settings,
whether it is local), and its build, to compare two of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from pgdyno.errors import SetupError
from pgdyno.json_types import Row
from pgdyno.record.facts import ServerFacts
from pgdyno.server.connecting.connect import connect
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.sql_files import query
from pgdyno.server.versions import newer_note

if TYPE_CHECKING:
    import psycopg

    from pgdyno.record.facts import ServerFacts


SETTINGS_THAT_MATTER = (
    "autovacuum",
    "bgwriter_delay",
    "bgwriter_lru_maxpages",
    "checkpoint_completion_target",
    "checkpoint_flush_after",
    "checkpoint_timeout",
    "commit_delay",
    "commit_siblings",
    "data_checksums",
    "effective_io_concurrency",
    "fsync",
    "full_page_writes",
    "huge_pages",
    "huge_pages_status",
    "io_method",
    "jit",
    "jit_above_cost",
    "log_duration",
    "log_min_duration_sample",
    "log_min_duration_statement",
    "log_statement",
    "max_connections",
    "max_wal_size",
    "min_wal_size",
    "shared_buffers",
    "synchronous_commit",
    "synchronous_standby_names",
    "track_io_timing",
    "track_wal_io_timing",
    "wal_buffers",
    "wal_compression",
    "wal_level",
    "wal_sync_method",
    "wal_writer_delay",
    "wal_writer_flush_after",
    "work_mem",
)
"""Always recorded; other settings only where they differ from the built-in default."""
_CAPABILITIES = ("lz4", "zstd", "jit", "io_uring", "icu")


def server_facts(conninfo: ConnInfo) -> ServerFacts:
    """Return facts about the server; ``cores`` and ``postmaster_pid`` only if it is local."""
    with connect(conninfo) as conn:
        row = _row(conn)
        names = {"names": list(SETTINGS_THAT_MATTER)}
        settings: dict[str, str] = dict(
            conn.execute(query("server", "server_settings"), names).fetchall()
        )
        _check_settings(settings)
        postmaster = postmaster_here(row.pop("backend_pid"), conninfo.user, conninfo.database)
    capabilities = {name: row.pop(name) for name in _CAPABILITIES}
    return {
        **cast("ServerFacts", row),
        "note": newer_note(row["version_num"]),
        "capabilities": capabilities,
        "settings": settings,
        "is_local": postmaster is not None,
        "postmaster_pid": postmaster,
        "cores": len(os.sched_getaffinity(0)) if postmaster is not None else None,
        "uri": conninfo.uri_without_password,
    }


def _check_settings(settings: Mapping[str, str]) -> None:
    """Raise SetupError if ``settings`` cannot be those of a PostgreSQL server."""
    if not settings.get("max_connections", "").isdecimal():
        raise SetupError(
            "the server does not report max_connections: its answer is damaged, or it is not"
            " PostgreSQL",
            code="garbled",
        )


def _row(conn: psycopg.Connection) -> Row:
    cursor = conn.execute(query("server", "server_facts"))
    row = cursor.fetchone()
    assert row is not None
    assert cursor.description is not None
    return dict(zip((column.name for column in cursor.description), row, strict=True))


def postmaster_here(backend_pid: int, user: str, database: str) -> int | None:
    """Return the postmaster's pid if the backend is a process of this machine, else ``None``.

    The address is not sufficient: a container or a tunnel can answer on loopback.
    """
    try:
        stat = Path(f"/proc/{backend_pid}/stat").read_text()
        title = Path(f"/proc/{backend_pid}/cmdline").read_bytes()
    except OSError:
        return None
    if f"{user} {database} ".encode() not in title:
        return None
    return int(stat.rpartition(")")[2].split()[1])


class SettingHere(Struct, frozen=True):
    """A setting of one server."""

    shown: str
    """Its value, as SHOW prints it."""
    value: str | None
    """The same in the unit."""
    boot: str | None
    """The built-in default, in the unit."""
    unit: str
    category: str
    context: str
    """``internal`` if it cannot be set."""


class Build(Struct, frozen=True):
    """A server's build."""

    version: str
    version_num: int
    told: str
    """The answer of ``version()``, with the compiler's name."""
    flags: Mapping[str, str]
    """``pg_config``: CC, CFLAGS, CONFIGURE, …"""
    assertions: bool
    """True if it was configured with --enable-cassert."""
    jit: bool
    extensions: frozenset[str]
    settings: Mapping[str, SettingHere]


def extensions_used(conninfo: ConnInfo) -> frozenset[str]:
    """Return the extensions of the database, without that which every server has."""
    with connect(conninfo) as conn:
        return frozenset(name for (name,) in conn.execute(query("server", "extensions")))


def read_build(conninfo: ConnInfo) -> Build:
    """Return the build of a running server, to which ``conninfo`` connects as superuser."""
    with connect(conninfo) as conn:
        cursor = conn.execute(query("server", "build_facts"))
        row = cursor.fetchone()
        assert row is not None
        version, version_num, told, assertions, jit, extensions = row
        flags: dict[str, str] = dict(conn.execute(query("server", "build_flags")).fetchall())
        settings = {
            name: SettingHere(*rest)
            for name, *rest in conn.execute(query("server", "all_settings"))
        }
    return Build(
        version=version,
        version_num=version_num,
        told=told,
        flags=flags,
        assertions=assertions,
        jit=jit,
        extensions=frozenset(extensions),
        settings=settings,
    )
