"""The server that a run loads: an embedded one that lives as long as the run, or the user's own."""

from __future__ import annotations

import resource
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pgdyno.conduct.watch import Watcher
from pgdyno.disk import OpenPlaces, open_places
from pgdyno.errors import SetupError
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
    server_behind,
    server_facts,
    settle,
    steady,
)
from pgdyno.server.connecting.turn import SESSIONS, only_one
from pgdyno.server.local.startup import check_before_start
from pgdyno.server.queries import query
from pgdyno.server.replication.receivers import Receivers
from pgdyno.spec import Spec
from pgdyno.spec.units import parse_size_bytes
from pgdyno.workload import Workload, own_database_needed

# What an embedded server is started with besides the spec's settings: timings that the diagnosis
# reads. They cost a clock read per I/O, which is under 30 ns on any machine of today.
_EMBEDDED_SETTINGS = {"track_io_timing": "on", "track_wal_io_timing": "on"}
# Connections beside the clients': probes, control, the server's own reserve, room to look in.
_CONNECTIONS_BESIDE = 20
_MAX_CONNECTIONS_DEFAULT = 100
# Of those the ones that are there in any case: probes, control, a statement of an event, the lock
# on the tables, and what keeps other pgdynos away.
_SESSIONS_BESIDE = 5 + SESSIONS
# Files beside the connections: probes, the run file, libraries, what the threads wait on.
_FILES_BESIDE = 100

_FILES_HIDDEN = (
    "it cannot be seen whether the server's configuration files were changed and not loaded: a"
    " reload by pgdyno would load them (GRANT SELECT ON pg_file_settings and EXECUTE ON FUNCTION"
    " pg_show_all_file_settings() to see it)"
)


@dataclass
class Target:
    """A server ready to be loaded."""

    conninfo: ConnInfo
    """The server itself: for set-up, probes, settings."""
    entrance: ConnInfo
    """Where the clients connect: the server itself, or a pooler before it."""
    settings: Settings
    facts: dict[str, Any]
    cluster: Cluster | None
    """The embedded server; ``None`` when the server is not ours."""
    places: OpenPlaces | None = None
    """Its disks."""
    receivers: Receivers | None = None
    """Its standbys; ``None`` when the server is not ours."""
    sessions: SessionSettings | None = None
    """Settings that the load's own sessions are given instead of the server: of a user's server
    that is reached without a pooler, which would hand such sessions on."""
    unbegun: ExitStack = field(default_factory=ExitStack)
    """Takes away what was made for a run that does not get as far as its tables."""

    def in_sessions(self, name: str) -> bool:
        """Whether a trial gives this setting to the load's own sessions alone."""
        return self.sessions is not None and self.sessions.takes(name)

    def set_by(self, names: Collection[str]) -> dict[str, str]:
        """Setting → how a trial sets it: ``sessions`` (the load's own), ``reload`` or ``restart``
        (after ALTER SYSTEM)."""
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
        """Of these settings, those for which a server that is not ours has to be changed."""
        return [] if self.ours else [each for each in settings if not self.in_sessions(each)]

    def require_checkpoint(self) -> None:
        """Raise SetupError when the role may not order a CHECKPOINT."""
        with connect(self.conninfo) as conn:
            row = conn.execute(query("may_checkpoint")).fetchone()
        if row != (True,):
            raise SetupError(
                f"the role {self.conninfo.user} may not order a CHECKPOINT, with which slices of"
                " such a trial begin and end",
                code="no-permission",
                hint=f"as a superuser: GRANT pg_checkpoint TO {self.conninfo.user} (PostgreSQL 15"
                " and later)",
            )

    def refuse_restart(self, names: Iterable[str]) -> None:
        """Raise SetupError for settings that need a restart, unless the server is ours."""
        if not self.ours:
            raise SetupError(
                f"{', '.join(sorted(names))}: takes effect only after a restart, and pgdyno does"
                " not restart a server that it did not start",
                code="restart-refused",
                hint="set it yourself, restart, and run again",
            )

    @property
    def data_dir(self) -> Path | None:
        """The server's data directory, where it is on this machine and known."""
        known = self.facts["data_directory"]
        return Path(known) if known and self.facts["is_local"] else None

    @property
    def max_wal_size_bytes(self) -> int | None:
        """``None`` where it cannot be seen."""
        try:
            return parse_size_bytes(self.facts["settings"]["max_wal_size"])
        except (KeyError, ValueError):
            return None

    @property
    def ours(self) -> bool:
        """Whether pgdyno started it, so that restarts and settings are ours to make."""
        return self.cluster is not None

    @property
    def checksums(self) -> bool:
        """Whether its data pages have checksums."""
        return bool(self.facts["settings"].get("data_checksums") == "on")

    def restart(self, change: Callable[[], None], take_out: Callable[[], None]) -> None:
        """Restart an embedded server, with ``change`` made while it is down.

        One that does not start is started without what ``take_out`` leaves out, and the reason
        raised as :class:`SetupError`. Returns when its standbys are back too.
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
            take_out()
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
    """Start or reach the spec's server, in the database that the ``workloads`` go to; ``stack``
    puts everything back when it unwinds."""
    _check_open_files(spec)
    if spec.server.kind == "existing":
        return _open_existing(spec, workloads, stack, watcher, may_apply=may_apply)
    return _start_embedded(spec, stack, watcher)


def check_programs(spec: Spec) -> None:
    """Raise UsageError or SetupError when the server that ``spec`` starts is not there, or would
    refuse its settings. Starts nothing."""
    check_before_start(_installation(spec), spec.server.settings)


def check_settings(spec: Spec, settings: Mapping[str, str]) -> None:
    """As :func:`check_programs`, for settings that are to be in force later."""
    check_before_start(_installation(spec), settings)


def _installation(spec: Spec) -> Installation:
    bindir = Path(spec.server.bindir) if spec.server.bindir else None
    return find_installation(bindir, spec.server.version)


def _connections_needed(spec: Spec) -> int:
    """The most connections that the clients may hold at once, pools or not."""
    return sum(group.count for group in spec.clients)


def _check_open_files(spec: Spec) -> None:
    """Refuse more connections than this process may have open files, before any is made."""
    needed = sum(group.connections_max for group in spec.clients) + _FILES_BESIDE
    # The engine raises the soft limit as far as it goes.
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and needed > limit:
        raise SetupError(
            f"the clients need {needed:,} open files, and this process may have {limit:,}",
            code="open-files",
            hint=f"ulimit -Hn {needed} as root, LimitNOFILE= in a service's unit, or fewer clients",
        )


def _check_connections(spec: Spec, facts: Mapping[str, Any]) -> None:
    """Refuse more direct connections than the server takes, before any is made."""
    needed = sum(group.connections_max for group in spec.clients)
    limit = int(facts["settings"]["max_connections"])
    reserved = int(facts["settings"].get("reserved_connections", 0))
    reserved += int(facts["settings"].get("superuser_reserved_connections", 3))
    kept = _SESSIONS_BESIDE + (0 if facts["superuser"] else reserved)
    if needed > limit - kept:
        raise SetupError(
            f"the clients need {needed} connections, and the server has {max(0, limit - kept)} for"
            f" them: max_connections = {limit}, less {kept} for probes and in reserve",
            code="too-many-connections",
            hint="fewer clients (-c), a pool that they share (--pool-max), or more max_connections",
        )


def _start_embedded(spec: Spec, stack: ExitStack, watcher: Watcher) -> Target:
    installation = _installation(spec)
    watcher.phase(f"starting PostgreSQL {installation.version}")
    settings = {**_EMBEDDED_SETTINGS, **spec.server.settings}
    if "max_connections" not in settings:
        wanted = _connections_needed(spec) * 2 + _CONNECTIONS_BESIDE
        settings["max_connections"] = str(max(_MAX_CONNECTIONS_DEFAULT, wanted))
    opened: list[OpenPlaces] = []

    def disks(folder: Path) -> OpenPlaces:
        opened.append(open_places(spec.disk)(folder))
        return opened[0]

    cluster = Cluster.create(installation, settings, disks=disks, checksums=spec.server.checksums)
    stack.enter_context(cluster)
    receivers = Receivers(cluster)
    stack.callback(receivers.close)
    for note in opened[0].notes:
        watcher.note(note)
    conninfo = cluster.conninfo
    facts = {
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
        places=opened[0],
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
    stack.enter_context(only_one(steady(conninfo), wait_ms=wait_ms, note=watcher.note))
    unbegun = stack.enter_context(ExitStack())
    pooled = conninfo is not entrance
    for sentence in settle(conninfo):
        watcher.note(sentence)
    conninfo = replace(conninfo, database_named=entrance.database_named)
    named = entrance.database if entrance.database_named else None
    if own_database_needed(conninfo, workloads, spec.workload):
        conninfo = replace(own_database(conninfo, unbegun), database_named=False)
        entrance = replace(entrance, database=conninfo.database)
        if named is not None:
            watcher.note(_why_not(named, spec))
    if may_apply and not require_loaded(conninfo):
        watcher.note(_FILES_HIDDEN)
    settings = Settings.of_user(conninfo, may_apply=may_apply)
    stack.callback(_restore, settings, watcher)
    facts = {
        **server_facts(conninfo),
        "kind": "existing",
        "entrance_uri": entrance.uri_without_password if pooled else None,
        "database_named": named,
    }
    if pooled:
        watcher.note(f"set-up and probes go past the pooler, to {conninfo.uri_without_password}")
    else:
        _check_connections(spec, facts)
    return Target(
        # What is tried on the clients does not cut probes and set-up short.
        conninfo=steady(conninfo),
        entrance=entrance,
        settings=settings,
        facts=facts,
        cluster=None,
        sessions=None if pooled else SessionSettings(steady(conninfo)),
        unbegun=unbegun,
    )


def _why_not(named: str, spec: Spec) -> str:
    """Why the load does not go to the database that was named."""
    if spec.workload.setup is not None:
        return (
            f"the setup makes tables, so the load works in the database {OWN_DATABASE} and not in"
            f" {named}; with workload.initialize = true it is executed there"
        )
    return (
        f"{named} has no tables for this workload: the load works in the database {OWN_DATABASE},"
        f" on tables of pgdyno's own; -i makes them in {named}"
    )
