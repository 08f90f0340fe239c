"""The server under load: an embedded one, which exists as long as the run, or an existing one."""

from __future__ import annotations

import resource
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.conduct.watch import Watcher
from pgdyno.disk import OpenDisks, open_disks
from pgdyno.errors import SetupError
from pgdyno.record.facts import ServerFacts
from pgdyno.server import (
    OWN_DATABASE,
    Cluster,
    ConnInfo,
    Installation,
    SessionSettings,
    Settings,
    connect,
    find_installation,
    own_database,
    require_loaded,
    resolve_conninfo,
    restore_leftovers,
    server_behind,
    server_facts,
    without_time_limits,
)
from pgdyno.server.connecting.exclusive_use import SESSIONS, exclusive_use
from pgdyno.server.local.startup import check_before_start
from pgdyno.server.queries import query
from pgdyno.server.replication.receivers import Receivers
from pgdyno.spec import Spec
from pgdyno.spec.units import parse_size_bytes
from pgdyno.workload import Workload, own_database_needed

# Settings of an embedded server in addition to the spec's: timings that the diagnosis reads. They
# cost a clock read per I/O, under 30 ns on current machines.
_EMBEDDED_SETTINGS = {"track_io_timing": "on", "track_wal_io_timing": "on"}
# Connections in addition to the clients': probes, control, the server's reserve, the user's own.
_OTHER_CONNECTIONS = 20
_MAX_CONNECTIONS_DEFAULT = 100
# The part of these that pgdyno always makes: probes, control, a statement of an event, the lock on
# the tables, and the lock against other runs of pgdyno.
_OWN_SESSIONS = 5 + SESSIONS
# Files in addition to the connections: probes, the run file, libraries, descriptors of threads.
_OTHER_FILES = 100

_FILES_HIDDEN = (
    "this role cannot see whether the server's configuration files have changes that are not yet"
    " loaded; a reload by pgdyno would load them (to check it: GRANT SELECT ON pg_file_settings and"
    " EXECUTE ON FUNCTION pg_show_all_file_settings())"
)


@dataclass
class Target:
    """A server ready for a load."""

    conninfo: ConnInfo
    """The server itself: for set-up, probes, settings."""
    entrance: ConnInfo
    """Connection values for the clients: of the server itself, or of a pooler in front of it."""
    settings: Settings
    facts: ServerFacts
    cluster: Cluster | None
    """The embedded server; ``None`` for an existing server."""
    disks: OpenDisks | None = None
    """Its disks."""
    receivers: Receivers | None = None
    """Its standbys; ``None`` for an existing server."""
    sessions: SessionSettings | None = None
    """Applies settings to the load's sessions instead of the server; only for an existing server
    without a pooler, because a pooler would pass such sessions on to other clients."""
    setup_undo: ExitStack = field(default_factory=ExitStack)
    """Removes what was made for a run that fails before it has its tables."""

    def in_sessions(self, name: str) -> bool:
        """True if a trial applies this setting to the load's sessions only."""
        return self.sessions is not None and self.sessions.is_settable(name)

    def set_by(self, names: Collection[str]) -> dict[str, str]:
        """Return by setting how a trial sets it: ``sessions`` (those of the load), or ``reload`` or
        ``restart`` after ALTER SYSTEM."""
        restart = self.settings.needs_restart(names)
        return {
            name: "sessions"
            if self.in_sessions(name)
            else "restart"
            if name.lower() in {each.lower() for each in restart}
            else "reload"
            for name in names
        }

    def needs_apply(self, settings: Iterable[str]) -> list[str]:
        """Return those of the settings for which an existing server must be changed."""
        return [] if self.ours else [each for each in settings if not self.in_sessions(each)]

    def require_checkpoint(self) -> None:
        """Raise SetupError when the role may not execute CHECKPOINT."""
        with connect(self.conninfo) as conn:
            row = conn.execute(query("may_checkpoint")).fetchone()
        if row != (True,):
            raise SetupError(
                f"the role {self.conninfo.user} may not execute CHECKPOINT, which this trial needs"
                " at the start and end of its slices",
                code="no-permission",
                hint=f"as a superuser: GRANT pg_checkpoint TO {self.conninfo.user} (PostgreSQL 15"
                " and later)",
            )

    def refuse_restart(self, names: Iterable[str]) -> None:
        """Raise SetupError for settings that need a restart, unless pgdyno started the server."""
        if not self.ours:
            raise SetupError(
                f"{', '.join(sorted(names))}: takes effect only after a restart, and pgdyno does"
                " not restart a server that it did not start",
                code="restart-refused",
                hint="set it yourself, restart, and run again",
            )

    @property
    def data_dir(self) -> Path | None:
        """The server's data directory, if it is known and on this machine."""
        known = self.facts["data_directory"]
        return Path(known) if known and self.facts["is_local"] else None

    @property
    def max_wal_size_bytes(self) -> int | None:
        """The server's max_wal_size; ``None`` if it cannot be read."""
        try:
            return parse_size_bytes(self.facts["settings"]["max_wal_size"])
        except (KeyError, ValueError):
            return None

    @property
    def ours(self) -> bool:
        """True if pgdyno started it, and so may restart it and change its settings."""
        return self.cluster is not None

    @property
    def checksums(self) -> bool:
        """True if its data pages have checksums."""
        return bool(self.facts["settings"].get("data_checksums") == "on")

    def restart(self, change: Callable[[], None], revert: Callable[[], None]) -> None:
        """Restart an embedded server, with ``change`` called while it is down.

        If it does not start, it is started again after ``revert``, and the reason raised as
        :class:`SetupError`. Returns when its standbys are also back.
        """
        if self.cluster is None or self.receivers is None:
            raise SetupError(
                "pgdyno does not restart a server that it did not start", code="restart-refused"
            )
        try:
            self.cluster.stop()
            change()
            self.cluster.start()
        except SetupError:
            revert()
            self.cluster.start()
            raise
        self.receivers.wait_caught_up()


def open_target(
    spec: Spec,
    workloads: Collection[Workload],
    stack: ExitStack,
    watcher: Watcher,
    *,
    may_apply: bool,
) -> Target:
    """Start or connect to the spec's server, with the database that the ``workloads`` use;
    ``stack`` restores everything when it unwinds."""
    _check_open_files(spec)
    if spec.server.kind == "existing":
        return _open_existing(spec, workloads, stack, watcher, may_apply=may_apply)
    return _start_embedded(spec, stack, watcher)


def check_binaries(spec: Spec) -> None:
    """Raise UsageError or SetupError when the binaries of the server that ``spec`` starts are
    missing, or would refuse its settings. Starts nothing."""
    check_before_start(_installation(spec), spec.server.settings)


def check_settings(spec: Spec, settings: Mapping[str, str]) -> None:
    """Check settings that will be applied later, as :func:`check_binaries` does."""
    check_before_start(_installation(spec), settings)


def _installation(spec: Spec) -> Installation:
    bindir = Path(spec.server.bindir) if spec.server.bindir else None
    return find_installation(bindir, spec.server.version)


def _connections_needed(spec: Spec) -> int:
    """Return the most connections that the clients may have at once, without pools."""
    return sum(group.count for group in spec.clients)


def _check_open_files(spec: Spec) -> None:
    """Raise SetupError for more connections than this process may have open files."""
    needed = sum(group.connections_max for group in spec.clients) + _OTHER_FILES
    # The engine raises the soft limit to the hard limit.
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and needed > limit:
        raise SetupError(
            f"the clients need {needed:,} open files, and this process may have {limit:,}",
            code="open-files",
            hint=f"run ulimit -Hn {needed} as root, set LimitNOFILE= in a service's unit, or use"
            " fewer clients",
        )


def _check_connections(spec: Spec, facts: ServerFacts) -> None:
    """Raise SetupError for more direct connections than the server accepts."""
    needed = sum(group.connections_max for group in spec.clients)
    limit = int(facts["settings"]["max_connections"])
    reserved = int(facts["settings"].get("reserved_connections", 0))
    reserved += int(facts["settings"].get("superuser_reserved_connections", 3))
    kept = _OWN_SESSIONS + (0 if facts["superuser"] else reserved)
    if needed > limit - kept:
        raise SetupError(
            f"the clients need {needed} connections, and the server has {max(0, limit - kept)} for"
            f" them: max_connections = {limit}, minus {kept} for probes and reserved connections",
            code="too-many-connections",
            hint="use fewer clients (-c) or a shared pool (--pool-max), or raise max_connections",
        )


def _start_embedded(spec: Spec, stack: ExitStack, watcher: Watcher) -> Target:
    installation = _installation(spec)
    watcher.phase(f"starting PostgreSQL {installation.version}")
    settings = {**_EMBEDDED_SETTINGS, **spec.server.settings}
    if "max_connections" not in settings:
        wanted = _connections_needed(spec) * 2 + _OTHER_CONNECTIONS
        settings["max_connections"] = str(max(_MAX_CONNECTIONS_DEFAULT, wanted))
    opened: list[OpenDisks] = []

    def disks(directory: Path) -> OpenDisks:
        opened.append(open_disks(spec.disk)(directory))
        return opened[0]

    cluster = Cluster.create(installation, settings, disks=disks, checksums=spec.server.checksums)
    stack.enter_context(cluster)
    receivers = Receivers(cluster)
    stack.callback(receivers.close)
    for note in opened[0].notes:
        watcher.note(note)
    conninfo = cluster.conninfo
    facts: ServerFacts = {
        **server_facts(conninfo),
        "kind": "embedded",
        "installation": installation.source,
        "entrance_uri": None,
        "database_named": None,
    }
    _check_connections(spec, facts)
    return Target(
        conninfo=conninfo,
        entrance=conninfo,
        settings=Settings(conninfo),
        facts=facts,
        cluster=cluster,
        disks=opened[0],
        receivers=receivers,
    )


def _restore(settings: Settings, watcher: Watcher) -> None:
    for sentence in settings.restore_all().sentences():
        watcher.note(sentence)


def _open_existing(
    spec: Spec,
    workloads: Collection[Workload],
    stack: ExitStack,
    watcher: Watcher,
    *,
    may_apply: bool,
) -> Target:
    watcher.phase("connecting")
    entrance = resolve_conninfo(spec.server.conninfo)
    conninfo = server_behind(entrance, spec.server.control)
    wait_ms = spec.server.wait_ms
    stack.enter_context(
        exclusive_use(without_time_limits(conninfo), wait_ms=wait_ms, note=watcher.note)
    )
    setup_undo = stack.enter_context(ExitStack())
    pooled = conninfo is not entrance
    for sentence in restore_leftovers(conninfo):
        watcher.note(sentence)
    conninfo = replace(conninfo, database_named=entrance.database_named)
    named = entrance.database if entrance.database_named else None
    if own_database_needed(conninfo, workloads, spec.workload):
        conninfo = replace(own_database(conninfo, setup_undo), database_named=False)
        entrance = replace(entrance, database=conninfo.database, server_encoding=None)
        if named is not None:
            watcher.note(_why_other_database(named, spec))
    if may_apply and not require_loaded(conninfo):
        watcher.note(_FILES_HIDDEN)
    settings = Settings.of_user(conninfo, may_apply=may_apply)
    stack.callback(_restore, settings, watcher)
    facts: ServerFacts = {
        **server_facts(conninfo),
        "kind": "existing",
        "entrance_uri": entrance.uri_without_password if pooled else None,
        "database_named": named,
    }
    if pooled:
        watcher.note(
            f"set-up and probes connect directly to {conninfo.uri_without_password}, not through"
            " the pooler"
        )
    else:
        _check_connections(spec, facts)
    return Target(
        # Settings under trial, such as timeouts, do not affect probes and set-up.
        conninfo=without_time_limits(conninfo),
        entrance=entrance,
        settings=settings,
        facts=facts,
        cluster=None,
        sessions=None if pooled else SessionSettings(without_time_limits(conninfo)),
        setup_undo=setup_undo,
    )


def _why_other_database(named: str, spec: Spec) -> str:
    """Return why the load does not use the database given by the user."""
    if spec.workload.setup is not None:
        return (
            f"the setup makes tables, so the load uses the database {OWN_DATABASE} and not {named};"
            f" with workload.initialize = true the setup is executed in {named}"
        )
    return (
        f"{named} has no tables for this workload, so the load uses tables made by pgdyno in the"
        f" database {OWN_DATABASE}; -i makes them in {named}"
    )
