"""Build of a server, and its settings with their built-in defaults, to compare two of them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pgdyno.server.connecting.connect import connect
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.versioned_sql import query


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
        return frozenset(name for (name,) in conn.execute(query("extensions")))


def read_build(conninfo: ConnInfo) -> Build:
    """Return the build of a running server, to which ``conninfo`` connects as superuser."""
    with connect(conninfo) as conn:
        cursor = conn.execute(query("build_facts"))
        row = cursor.fetchone()
        assert row is not None
        version, version_num, told, assertions, jit, extensions = row
        flags: dict[str, str] = dict(conn.execute(query("build_flags")).fetchall())
        settings = {name: SettingHere(*rest) for name, *rest in conn.execute(query("all_settings"))}
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
