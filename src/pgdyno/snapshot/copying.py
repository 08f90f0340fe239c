"""The procedure of ``pgdyno snapshot save --from``: a database of the user's is copied into a
server that pgdyno starts, whose data are then saved.

The source is only read. Its functions may be executed while it is restored: in pgdyno's server,
with the rights of its account.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as with_values

from pgdyno.conduct import Watcher, grow_old, installation_of, started_server
from pgdyno.errors import SetupError, UsageError
from pgdyno.server import OWN_DATABASE, Cluster, connect
from pgdyno.server.local.snapshot_file import Origin
from pgdyno.server.local.snapshots import Place
from pgdyno.server.versions import caution
from pgdyno.snapshot._source import Locale, Source, look_at, sql
from pgdyno.snapshot._transfer import Transfer, programs_of
from pgdyno.snapshot.preparing import Request
from pgdyno.snapshot.procedure import Saved, cluster_of, describe, take
from pgdyno.spec import Spec
from pgdyno.visible import visible_line

if TYPE_CHECKING:
    from psycopg import Connection

_SPARE_BYTES = 64 << 20


def save_copy(place: Place, request: Request, text: str, watcher: Watcher) -> Saved:
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
        origin = Origin(
            source.conninfo.database, source.conninfo.uri_without_password, source.version
        )
        described = describe(place.name, spec, target, request)
        described = replace(described, workload=(), scale=1, origin=origin)
        cluster.stop()
        return take(place, described, cluster)


def _spec_for(spec: Spec, source: Source) -> Spec:
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


def _check_extensions(cluster: Cluster, source: Source) -> None:
    """Raise SetupError for extensions that the server cannot have."""
    with connect(cluster.conninfo) as conn:
        rows = conn.execute(sql("unavailable"), [list(source.extensions)]).fetchall()
    if rows:
        names = ", ".join(visible_line(str(name)) for (name,) in rows)
        build = cluster.installation
        raise SetupError(
            f"the database uses extensions that PostgreSQL {build.version} in {build.bindir} does"
            f" not have: {names}",
            code="extensions-missing",
            hint="install them for that version, or name a build with them by --pg-bindir",
        )


def _check_space(place: Place, cluster: Cluster, source: Source) -> None:
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


def _fill(cluster: Cluster, source: Source, watcher: Watcher) -> None:
    """Dump the source and restore it into the server's database. Raises SetupError."""
    name = visible_line(source.conninfo.database)
    transfer = Transfer(source.conninfo, cluster)
    watcher.phase(f"dumping {name} ({source.size_bytes / 1e6:,.0f} MB)")
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


def _make_database(cluster: Cluster, source: Source, watcher: Watcher) -> None:
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
