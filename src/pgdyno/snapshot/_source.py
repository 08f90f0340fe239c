"""A database of the user's that is to be copied: facts of it, and whether it can be read."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from pgdyno.errors import SetupError, UsageError
from pgdyno.server import ConnInfo, connect, resolve_conninfo, server_behind
from pgdyno.server.versions import plain_version
from pgdyno.spec.sql_text import quoted
from pgdyno.visible import visible_line

_NAMED_MAX = 5


class Locale(Struct, frozen=True):
    """Encoding and locale of a database."""

    encoding: str
    collate: str
    ctype: str
    provider: str
    """``c`` for libc, ``i`` for ICU, ``b`` for the server's own."""
    name: str | None
    """The locale of a provider other than libc."""

    @property
    def in_words(self) -> str:
        """The locale's name, with its provider unless that is libc."""
        provider = {"i": "ICU's ", "b": "the built-in "}.get(self.provider, "")
        return f"{provider}{self.name or self.collate}"


class Source(Struct, frozen=True):
    """A database to copy."""

    conninfo: ConnInfo
    version: str
    version_num: int
    size_bytes: int
    locale: Locale
    extensions: tuple[str, ...]
    schemas: tuple[str, ...]
    """Those in which the role's statements find tables, in order."""
    settings: tuple[str, ...]
    """Names of settings of the database or the role, without search_path."""

    @property
    def major(self) -> int:
        """The major version of its server."""
        return self.version_num // 10_000


def sql(name: str) -> bytes:
    """Return the text of ``sql/NAME.sql``."""
    return Path(__file__).with_name("sql").joinpath(f"{name}.sql").read_bytes()


def look_at(text: str) -> Source:
    """Return the database of a connection string, which can be read completely.

    Raises UsageError if none is named, SetupError if it cannot be reached or read.
    """
    entrance = resolve_conninfo(text)
    if not entrance.database_named:
        raise UsageError(
            "--from names no database",
            code="no-database-named",
            hint="for example --from postgresql://user@host/shop, or --from shop",
        )
    conninfo = server_behind(entrance, None)
    with connect(conninfo) as conn:
        unreadable = conn.execute(sql("unreadable")).fetchall()
        if unreadable:
            raise _unreadable(conninfo, [(str(name), bool(may)) for name, may in unreadable])
        row = conn.execute(sql("source")).fetchone()
        assert row is not None, "it is connected to the database"
        size_bytes, encoding, collate, ctype, provider, locale, extensions, settings = row
        return Source(
            conninfo=conninfo,
            version=plain_version(conn.info.parameter_status("server_version") or ""),
            version_num=conn.info.server_version,
            size_bytes=size_bytes,
            locale=Locale(encoding, collate, ctype, provider, locale),
            extensions=tuple(extensions),
            schemas=conn.user_schemas,
            settings=tuple(settings),
        )


def _unreadable(conninfo: ConnInfo, found: list[tuple[str, bool]]) -> SetupError:
    """Return the error for tables of which the role may not read all rows."""
    forbidden = [name for name, may in found if not may]
    role = quoted(conninfo.user)
    if forbidden:
        return SetupError(
            f"the role {visible_line(conninfo.user)} may not read {_listed(forbidden)}, so that the"
            " database cannot be copied",
            code="source-unreadable",
            hint=f"as a superuser: GRANT pg_read_all_data TO {role}, or name another role",
        )
    return SetupError(
        f"row-level security hides rows of {_listed([name for name, _ in found])} from the role"
        f" {visible_line(conninfo.user)}, so that the database cannot be copied",
        code="source-unreadable",
        hint=f"as a superuser: ALTER ROLE {role} BYPASSRLS, or name another role",
    )


def _listed(names: list[str]) -> str:
    """Return the first names on one line, and the number of the others."""
    more = len(names) - _NAMED_MAX
    listed = ", ".join(map(visible_line, names[:_NAMED_MAX]))
    return f"{listed} and {more:,} more" if more > 0 else listed
