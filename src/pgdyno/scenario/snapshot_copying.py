"""The procedure of ``pgdyno snapshot save --from``: a database of the user's is copied into a
server that pgdyno starts, whose data are then saved.

The source is only read. Its functions may be executed while it is restored: in pgdyno's server,
with the rights of its account. The dump lies in the directory of the server that takes it, and goes
with it. No password is on a command line: the values of the connection are in the environment of
pg_dump, those that libpq has no variable for in a service file (0600) beside the dump.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace as with_values

from pgdyno.conduct import Watcher, grow_old, installation_of, started_server
from pgdyno.errors import SetupError, UsageError
from pgdyno.escaping import visible_line
from pgdyno.numbers import listed, size
from pgdyno.scenario.snapshot import Saved, SnapshotRequest, cluster_of, describe, take
from pgdyno.server import (
    OWN_DATABASE,
    Cluster,
    ConnInfo,
    Installation,
    connect,
    discover_installations,
    resolve_conninfo,
    server_behind,
)
from pgdyno.server.local.account import plain_environment
from pgdyno.server.local.guarded import Guarded
from pgdyno.server.local.safefiles import remove_own_directory, write_own
from pgdyno.server.local.snapshots import CopiedDatabase, UnfinishedSnapshot
from pgdyno.server.sql_files import query
from pgdyno.server.versions import caution, plain_version
from pgdyno.spec import Spec
from pgdyno.spec.sql_text import quoted

if TYPE_CHECKING:
    from psycopg import Connection

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


class SourceDatabase(Struct, frozen=True):
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


def look_at(text: str) -> SourceDatabase:
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
        unreadable = conn.execute(query("scenario", "unreadable")).fetchall()
        if unreadable:
            raise _unreadable(conninfo, [(str(name), bool(may)) for name, may in unreadable])
        row = conn.execute(query("scenario", "source")).fetchone()
        assert row is not None, "it is connected to the database"
        size_bytes, encoding, collate, ctype, provider, locale, extensions, settings = row
        return SourceDatabase(
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
    return listed([visible_line(name) for name in names], _NAMED_MAX)


_PROGRAMS = ("pg_dump", "pg_restore")
_LEFT_OUT = (
    "--no-owner",
    "--no-privileges",
    "--no-publications",
    "--no-subscriptions",
    "--no-security-labels",
    "--no-tablespaces",
)
"""Options of both programs: an archive has owners and tablespaces even so."""
_LOCK_WAIT = "--lock-wait-timeout=30s"
_ABOUT_LOCKS = "; a statement timeout of pg_dump is that a table was locked for more than 30 s"
_JOBS_MAX = 4
_LOG_BYTES_MAX = 1 << 20
_POLL_S = 1.0
_VARIABLES = {"host": "PGHOST", "hostaddr": "PGHOSTADDR", "port": "PGPORT", "user": "PGUSER"}
_VARIABLES |= {"dbname": "PGDATABASE", "password": "PGPASSWORD"}
_FILES = ("sslcert", "sslkey", "sslrootcert", "sslcrl")
_NOT_RESTORED = re.compile(rb"\d+; \d+ \d+ (?:USER MAPPING|POLICY|ROW SECURITY) ")
"""Entries of a dump that name roles; a user mapping would lead to the servers of others."""


def programs_of(installation: Installation) -> Installation:
    """Return the binaries with pg_dump and pg_restore for a server: its own, else others of its
    version. Raises SetupError."""
    others = [each for each in discover_installations() if each.major == installation.major]
    for each in (installation, *others):
        if all(each.binary(name).is_file() for name in _PROGRAMS):
            return each
    installation.program(_PROGRAMS[0])
    installation.program(_PROGRAMS[1])
    raise AssertionError("one of them is missing")


class Transfer:
    """A dump on its way from one server to the other."""

    def __init__(self, source: ConnInfo, cluster: Cluster) -> None:
        self._source = source
        self._cluster = cluster
        self._programs = programs_of(cluster.installation)
        self._dump = cluster.directory / "dump"
        self._jobs = f"--jobs={min(_JOBS_MAX, os.cpu_count() or 1)}"

    def dump(self) -> None:
        """Dump the database. Raises SetupError."""
        service = self._cluster.directory / "source.conf"
        write_own(service, _service(self._source))
        environment = _environment(self._source) | {
            "PGSERVICEFILE": str(service),
            "PGSERVICE": "source",
        }
        if "HOME" in os.environ:  # Certificates may be there.
            environment["HOME"] = os.environ["HOME"]
        options = ("--format=directory", self._jobs, _LOCK_WAIT, *_LEFT_OUT)
        try:
            self._run("pg_dump", [*options, f"--file={self._dump}"], environment)
        finally:
            service.unlink(missing_ok=True)

    def restore(self) -> int:
        """Restore the dump and remove it; return how many of its entries were left out because they
        name roles. Raises SetupError."""
        own = self._cluster.conninfo
        contents = self._cluster.directory / "contents"
        self._run("pg_restore", ["--list", f"--file={contents}", str(self._dump)], {})
        entries = contents.read_bytes().split(b"\n")
        kept = [entry for entry in entries if not _NOT_RESTORED.match(entry)]
        contents.write_bytes(b"\n".join(kept))
        into = ["--exit-on-error", self._jobs, f"--use-list={contents}", f"--dbname={own.database}"]
        self._run("pg_restore", [*into, *_LEFT_OUT, str(self._dump)], _environment(own))
        remove_own_directory(self._dump)
        contents.unlink()
        return len(entries) - len(kept)

    def _run(self, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        """Run a program until it ends. Raises SetupError with the error that it prints first."""
        log = self._cluster.directory / f"{name}.log"
        process = Guarded(
            [str(self._programs.binary(name)), *arguments],
            log,
            None,
            end_signal=signal.SIGTERM,
            environment=plain_environment() | environment,
        )
        try:
            while not process.wait_exit(_POLL_S):
                pass
        finally:
            process.end()
        if process.exit_status != 0:
            raise SetupError(
                f"the database {visible_line(self._source.database)} cannot be copied:"
                f" {name} {self._programs.version}: {_first_error(log) or process.how_it_ended}",
                code="copy-failed",
                hint="nothing was saved, and nothing changed on its server"
                + (_ABOUT_LOCKS if name == "pg_dump" else ""),
            )


def _environment(conninfo: ConnInfo) -> dict[str, str]:
    """Return the values of a connection for which libpq has variables that all versions know."""
    values = conninfo.kwargs()
    return {
        variable: str(values[name]) for name, variable in _VARIABLES.items() if values.get(name)
    }


def _service(conninfo: ConnInfo) -> str:
    """Return a service file with the other values. Raises SetupError for what it cannot have."""
    values = {
        name: str(value)
        for name, value in conninfo.kwargs().items()
        if name not in (*_VARIABLES, "client_encoding")
    }
    values["application_name"] = "pgdyno dump"
    for name, value in values.items():
        if name in _FILES and value and value != "system":
            values[name] = str(Path(value).expanduser().absolute())
        if "\n" in value or value != value.rstrip():
            raise SetupError(
                f"{name} in the connection string has a line break or ends with a space, and cannot"
                " be passed to pg_dump",
                code="connection-unsupported",
                hint="leave it out",
            )
    return "".join(f"{line}\n" for line in ("[source]", *(f"{k}={v}" for k, v in values.items())))


def _first_error(log: Path) -> str:
    """Return the first error in the output of a program, else its first line."""
    with log.open("rb") as file:
        lines = file.read(_LOG_BYTES_MAX).decode("utf-8", "replace").splitlines()
    named = (re.sub(r"^pg_\w+: error: ", "", line) for line in lines if ": error: " in line)
    first = next(named, lines[0] if lines else "")
    return visible_line(first.strip())


_SPARE_BYTES = 64 << 20


def save_copy(
    place: UnfinishedSnapshot, request: SnapshotRequest, text: str, watcher: Watcher
) -> Saved:
    """Save a copy of the database of the connection string ``text``.

    Raises UsageError, and SetupError for a source that cannot be copied or does not fit.
    """
    watcher.phase("connecting")
    source = look_at(text)
    caution(source.version_num, watcher.note)
    spec = _spec_for(request.spec, source)
    programs_of(installation_of(spec))
    with started_server(spec, watcher) as target:
        cluster = cluster_of(target)
        _check_extensions(cluster, source)
        _check_space(place, cluster, source)
        _fill(cluster, source, watcher)
        if request.age is not None:
            grow_old(target, watcher, *request.age)
        watcher.phase("saving the state")
        origin = CopiedDatabase(
            source.conninfo.database, source.conninfo.uri_without_password, source.version
        )
        described = describe(place.name, spec, target, request)
        described = replace(described, workload=(), scale=1, origin=origin)
        cluster.stop()
        return take(place, described, cluster)


def _spec_for(spec: Spec, source: SourceDatabase) -> Spec:
    """Return the spec of a server that can take the copy: by default one of the same version.
    Raises UsageError, SetupError."""
    if spec.server.bindir is None and spec.server.version is None:
        server = spec.server.model_copy(update={"version": source.major})
        spec = spec.model_copy(update={"server": server})
    hint = (
        f"pgdyno server get {source.major} gets it; --pg-version chooses a newer one"
        " (pgdyno server list)"
    )
    try:
        found = installation_of(spec)
    except SetupError as problem:
        if problem.code == "no-server-binaries" and spec.server.version == source.major:
            problem.hint = hint
        raise
    if found.major < source.major:
        raise UsageError(
            f"the database is of PostgreSQL {source.version}, and the server to start is"
            f" {found.version}: an older version cannot take it",
            code="pg-version",
            hint=hint,
        )
    return spec


def _check_extensions(cluster: Cluster, source: SourceDatabase) -> None:
    """Raise SetupError for extensions that the server cannot have."""
    with connect(cluster.conninfo) as conn:
        rows = conn.execute(query("scenario", "unavailable"), [list(source.extensions)]).fetchall()
    if rows:
        names = ", ".join(visible_line(str(name)) for (name,) in rows)
        build = cluster.installation
        raise SetupError(
            f"the database uses extensions that PostgreSQL {build.version} in {build.bindir} does"
            f" not have: {names}",
            code="extensions-missing",
            hint="install them for that version, or name a build with them by --pg-bindir",
        )


def _check_space(place: UnfinishedSnapshot, cluster: Cluster, source: SourceDatabase) -> None:
    """Raise SetupError if dump, restored data and saved copy do not fit on the disk."""
    # The dump, which is compressed, goes before the data are copied or cloned.
    factor = 1.5 if place.clones(cluster.data_dir) else 2.0
    needed = int(source.size_bytes * factor) + _SPARE_BYTES
    free = shutil.disk_usage(cluster.directory).free
    if free < needed:
        raise SetupError(
            f"the database has {source.size_bytes >> 20:,} MB; to copy it takes {needed >> 20:,} MB"
            f" in {cluster.directory.parent}, whose disk has {free >> 20:,} MB free",
            code="copy-space",
            hint="free some space, or set PGDYNO_HOME to a directory with more",
        )


def _fill(cluster: Cluster, source: SourceDatabase, watcher: Watcher) -> None:
    """Dump the source and restore it into the server's database. Raises SetupError."""
    name = visible_line(source.conninfo.database)
    transfer = Transfer(source.conninfo, cluster)
    watcher.phase(f"dumping {name} ({size(source.size_bytes)})")
    transfer.dump()
    _make_database(cluster, source, watcher)
    watcher.phase(f"restoring {name}")
    if left_out := transfer.restore():
        watcher.note(
            "note: not copied, since they are for roles: user mappings and row-level security"
            f" ({left_out} entries)"
        )
    if source.settings:
        watcher.note(
            f"note: settings of {name} or its role are not copied:"
            f" {', '.join(map(visible_line, source.settings))}; --set has them for a load"
        )
    watcher.phase("vacuuming")
    with connect(cluster.conninfo) as conn:
        conn.execute("vacuum analyze")


def _make_database(cluster: Cluster, source: SourceDatabase, watcher: Watcher) -> None:
    """Make the server's own database again: with the encoding and locale of the source, if the
    server has them, and the schemas in which statements find tables."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    wanted = source.locale
    with connect(with_values(cluster.conninfo, database="postgres")) as conn:
        conn.execute(f"drop database {OWN_DATABASE} with (force)".encode())
        try:
            _create(conn, wanted)
        except psycopg.Error as problem:
            said = visible_line(problem.diag.message_primary or str(problem))
            watcher.note(
                f"note: the copy sorts and compares text by the locale C, not {wanted.in_words},"
                f" which this server lacks ({said}): plans and times of such statements differ"
            )
            _create(conn, Locale(wanted.encoding, "C", "C", "c", None))
    if source.schemas not in ((), ("public",)):
        with connect(cluster.conninfo) as conn:
            path = SQL(", ").join(map(Identifier, source.schemas))
            change = SQL("alter database {} set search_path to {}")
            conn.execute(change.format(Identifier(OWN_DATABASE), path))


def _create(conn: Connection, locale: Locale) -> None:
    """Create the server's own database. Raises psycopg.Error."""
    from psycopg.sql import SQL, Identifier, Literal

    values = {"encoding": locale.encoding, "lc_collate": locale.collate, "lc_ctype": locale.ctype}
    if locale.provider != "c":
        provider = {"i": "icu", "b": "builtin"}.get(locale.provider, locale.provider)
        values |= {"locale_provider": provider, f"{provider}_locale": locale.name or ""}
    options = SQL(" ").join(
        SQL("{} {}").format(SQL(name), Literal(value)) for name, value in values.items()
    )
    statement = SQL("create database {} template template0 {}")
    conn.execute(statement.format(Identifier(OWN_DATABASE), options))
