"""The server under load: an embedded one, which exists as long as the run, or an existing one."""

from __future__ import annotations

import resource
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from pgdyno.conduct._connection_room import check_connections, pairs_warning, pooler_pairs
from pgdyno.conduct._other_servers import OtherServers
from pgdyno.conduct._starting import (
    installation_of,
    other_binaries,
    pins_of,
    saved_data,
    snapshot_of,
    with_statements,
)
from pgdyno.conduct.watch import Watcher
from pgdyno.disk import OpenDisks, open_disks
from pgdyno.errors import SetupError, UsageError
from pgdyno.front import Application
from pgdyno.kernel import KernelChanges
from pgdyno.pooler import Gateway, check_pooler, server_connections, warnings
from pgdyno.record.facts import ServerFacts
from pgdyno.server import (
    OWN_DATABASE,
    Cluster,
    ConnInfo,
    SessionSettings,
    Settings,
    catalog_first,
    connect,
    keeps_prepared,
    own_database,
    require_loaded,
    resolve_conninfo,
    restore_leftovers,
    server_behind,
    server_facts,
    without_time_limits,
)
from pgdyno.server.connecting.conninfo import Host
from pgdyno.server.connecting.exclusive_use import exclusive_use
from pgdyno.server.local.layout import has_kept_data
from pgdyno.server.local.snapshots import Snapshot
from pgdyno.server.local.startup import check_before_start
from pgdyno.server.replication.patroni import PASSED_ON, check_passed_on
from pgdyno.server.replication.patroni import check_programs as check_manager
from pgdyno.server.replication.receivers import Receivers
from pgdyno.server.versioned_sql import query
from pgdyno.spec import Spec
from pgdyno.spec.age import Ids, unfit_setting
from pgdyno.spec.pooler import in_words
from pgdyno.spec.sql_text import quoted
from pgdyno.spec.units import parse_size_bytes
from pgdyno.workload import Workload, own_database_needed

# Settings of an embedded server in addition to the spec's: timings that the diagnosis reads. They
# cost a clock read per I/O, under 30 ns on current machines.
_EMBEDDED_SETTINGS = {"track_io_timing": "on", "track_wal_io_timing": "on"}
# Connections of a pooler that an embedded server has room for, so that larger pools can be tried.
_POOLED_CONNECTIONS_MAX = 200
# Connections in addition to the clients': probes, control, the server's reserve, the user's own.
_OTHER_CONNECTIONS = 20
_MAX_CONNECTIONS_DEFAULT = 100
# Files in addition to the connections: probes, the run file, libraries, descriptors of threads.
_OTHER_FILES = 100

_FILES_HIDDEN = (
    "this role cannot see whether the server's configuration files have changes that are not yet"
    " loaded; a reload by pgdyno would load them (to check it: GRANT SELECT ON pg_file_settings and"
    " EXECUTE ON FUNCTION pg_show_all_file_settings())"
)


def _no_database() -> UsageError:
    return UsageError(
        "this needs a PostgreSQL server, and the load is of a web server alone",
        code="no-database",
        hint="name the server behind the web server: --control postgresql://…, or"
        " server.conninfo in a spec",
    )


@dataclass
class Target:
    """A server ready for a load."""

    server: ConnInfo | None
    """The database server itself, for set-up, probes and settings; None: there is none."""
    gateway: Gateway | None
    """The entrance for clients; ``None`` where the user's connection string is a pooler's."""
    users_pooler: ConnInfo | None
    """Connection values of a pooler that the user named."""
    server_settings: Settings | None
    """Its settings."""
    facts: ServerFacts
    cluster: Cluster | None
    """The embedded server; ``None`` for an existing server."""
    disks: OpenDisks | None = None
    """Its disks."""
    snapshot: Snapshot | None = None
    """The saved state that it started from."""
    receivers: Receivers | None = None
    """Its standbys; ``None`` for an existing server."""
    application: Application | None = None
    """The front end to which the clients send requests, once it runs."""
    sessions: SessionSettings | None = None
    """Applies settings to the load's sessions instead of the server; only for an existing server
    without a pooler, because a pooler would pass such sessions on to other clients, and those of a
    web server are its own."""
    primaries: tuple[Host, ...] = ()
    """Servers among which clients look for the one that accepts writes; empty: there is one."""
    _gateway_of: int | None = None
    """PID of the server that the pooler was started for."""
    kernel: KernelChanges = field(default_factory=KernelChanges)
    """Parameters of this machine's kernel that the run changes."""
    others: OtherServers | None = None
    """Servers that can take turns with the embedded one."""
    setup_undo: ExitStack = field(default_factory=ExitStack)
    """Removes the objects made for a run that fails before it has its tables."""

    @property
    def conninfo(self) -> ConnInfo:
        """Connection values of the database server. Raises UsageError if there is none."""
        if self.server is None:
            raise _no_database()
        return self.server

    @property
    def settings(self) -> Settings:
        """Settings of the database server. Raises UsageError if there is none."""
        if self.server_settings is None:
            raise _no_database()
        return self.server_settings

    @property
    def entrance(self) -> ConnInfo:
        """Connection values for the clients: of the server itself, or of a pooler."""
        if self.primaries:
            options = {**self.conninfo.options, "target_session_attrs": "read-write"}
            return replace(self.conninfo, hosts=self.primaries, options=options)
        if self.gateway is not None:
            return self.gateway.entrance
        return self.users_pooler or self.conninfo

    def renew_gateway(self) -> None:
        """Start a pooler again whose server was started again: some take it for lost, or wait
        before they connect to it."""
        if self.gateway is not None and self.cluster is not None:
            if self._gateway_of not in (None, self.cluster.pid):
                self.gateway.restart()
            self._gateway_of = self.cluster.pid

    def renew_sessions(self) -> None:
        """End the sessions that a pooler or a front end of pgdyno's keeps; no load may run."""
        if self.gateway is not None:
            self.gateway.restart()
        if self.application is not None:
            self.application.renew_sessions()

    def check_programs(self, *, outage_expected: bool) -> None:
        """Raise RunError if a pooler or a failover manager that pgdyno started has ended, or the
        server itself where no outage is expected."""
        if self.gateway is not None:
            self.gateway.check()
        if self.application is not None:
            self.application.check()
        if self.receivers is not None:
            self.receivers.check()
        if self.cluster is not None and not outage_expected:
            self.cluster.check()

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
                hint=f"as a superuser: GRANT pg_checkpoint TO {quoted(self.conninfo.user)}"
                " (PostgreSQL 15 and later)",
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
    keep_server: Path | None = None,
) -> Target:
    """Start or connect to the spec's server, with the database that the ``workloads`` use;
    ``stack`` restores everything when it unwinds. ``keep_server`` is the directory of a server that
    is started and whose data stay there, of a new one from ``Cluster.keep_from_now_on`` on."""
    _check_open_files(spec)
    if spec.server.kind == "none":
        return _no_server()
    check_pooler(spec)
    if spec.standby.managed:
        check_manager()
    if spec.server.kind == "existing":
        return _open_existing(spec, workloads, stack, watcher, may_apply=may_apply)
    return _start_embedded(spec, stack, watcher, keep_server)


def check_binaries(spec: Spec) -> None:
    """Raise UsageError or SetupError when the binaries of the server that ``spec`` starts are
    missing, or would refuse its settings. Starts nothing."""
    check_settings(spec, spec.server.settings)


def check_settings(spec: Spec, *given: Mapping[str, str]) -> None:
    """Raise as :func:`check_binaries` does, for all of the ``given`` settings at once."""
    check_before_start(installation_of(spec), *given)
    if spec.server.age is not None:
        check_age_kept(spec, spec.server.age[0])
    if spec.standby.managed:
        for settings in given:
            check_passed_on(settings)


def check_age_kept(spec: Spec, ids: Ids) -> None:
    """Raise UsageError if the server that ``spec`` starts cannot keep an age, with its settings and
    version."""
    if unfit := unfit_setting(ids, spec.server.settings, installation_of(spec).major):
        raise UsageError(unfit, code="age-settings", hint="leave the setting out")


def _connections_needed(spec: Spec) -> int:
    """Return the most connections that the server may have at once, without pools of clients."""
    if spec.front is not None:
        return max(spec.front.connections_max, sum(group.count for group in spec.clients))
    clients = sum(group.count for group in spec.clients)
    if not spec.pooler.in_use:
        return clients
    return max(server_connections(spec), min(clients, _POOLED_CONNECTIONS_MAX))


def _check_open_files(spec: Spec) -> None:
    """Raise SetupError for more connections than this process may have open files."""
    check_open_files(sum(group.connections_max for group in spec.clients))


def check_open_files(connections: int) -> None:
    """Raise SetupError for more connections than this process may have open files."""
    needed = connections + _OTHER_FILES
    # The engine raises the soft limit to the hard limit.
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and needed > limit:
        raise SetupError(
            f"the clients need {needed:,} open files, and this process may have {limit:,}",
            code="open-files",
            hint=f"run ulimit -Hn {needed} as root, set LimitNOFILE= in a service's unit, or use"
            " fewer clients",
        )


def _in_front(spec: Spec, server: ConnInfo, stack: ExitStack, watcher: Watcher) -> Gateway:
    """Start the pooler of ``spec`` in front of the server, if it asks for one."""
    gateway = Gateway(server)
    stack.callback(gateway.close)
    if spec.pooler.in_use:
        watcher.phase(f"starting {in_words(spec.pooler)}")
        gateway.arrange(spec)
        for warning in warnings(spec):
            watcher.note(f"warning: {warning}")
    return gateway


@contextmanager
def _beside_run_file(keep_dir: Path | None) -> Iterator[None]:
    """Correct hints: where the directory of a kept server is depends on the run file alone."""
    try:
        yield
    except SetupError as problem:
        if keep_dir and problem.place and problem.place.is_relative_to(keep_dir):
            problem.hint = (
                "the server's data are beside the run file: name one with -o in a directory"
                " of yours, with enough space, that the server's account can enter"
            )
        raise


def _start_embedded(
    spec: Spec, stack: ExitStack, watcher: Watcher, keep_dir: Path | None
) -> Target:
    installation = installation_of(spec)
    watcher.phase(f"starting PostgreSQL {installation.version}")
    snapshot = snapshot_of(spec)
    if other := other_binaries(spec, snapshot, installation):
        watcher.note(f"warning: {other}")
    settings = with_statements(
        spec,
        installation,
        {**_EMBEDDED_SETTINGS, **pins_of(spec, snapshot), **spec.server.settings},
    )
    if "max_connections" not in settings:
        wanted = _connections_needed(spec) * 2 + _OTHER_CONNECTIONS
        settings["max_connections"] = str(max(_MAX_CONNECTIONS_DEFAULT, wanted))
    opened: list[OpenDisks] = []

    def disks(directory: Path) -> OpenDisks:
        opened.append(open_disks(spec.disk)(directory))
        return opened[0]

    begins = keep_dir is None or not has_kept_data(keep_dir)
    with _beside_run_file(keep_dir), saved_data(snapshot if begins else None) as source:
        cluster = Cluster.create(
            installation,
            settings,
            keep_dir=keep_dir,
            begins=keep_dir is not None and begins,
            disks=None if keep_dir else disks,
            checksums=spec.server.checksums,
            source=source,
        )
        stack.enter_context(cluster)
    receivers = Receivers(cluster)
    stack.callback(receivers.close)
    for note in (note for each in opened for note in each.notes):
        watcher.note(note)
    conninfo = cluster.conninfo
    facts: ServerFacts = {
        **server_facts(conninfo),
        "kind": "embedded",
        "installation": installation.source,
        "snapshot": snapshot.name if snapshot else None,
        "entrance_uri": None,
        "database_named": None,
    }
    check_connections(spec, facts, conninfo)
    gateway = _in_front(spec, conninfo, stack, watcher)
    facts["pooler"] = gateway.facts()
    return Target(
        server=conninfo,
        gateway=gateway,
        users_pooler=None,
        server_settings=Settings(conninfo, passed_on=PASSED_ON),
        facts=facts,
        cluster=cluster,
        disks=opened[0] if opened else None,
        snapshot=snapshot,
        receivers=receivers,
        _gateway_of=cluster.pid,
    )


def _no_server() -> Target:
    """Return the target of a load of a web server whose database is not known."""
    facts: ServerFacts = {
        "kind": "none",
        "data_directory": None,
        "is_local": False,
        "postmaster_pid": None,
        "settings": {},
    }
    return Target(
        server=None,
        gateway=None,
        users_pooler=None,
        server_settings=None,
        facts=facts,
        cluster=None,
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
    unlimited, wait_ms = without_time_limits(conninfo), spec.server.wait_ms
    stack.enter_context(exclusive_use(unlimited, wait_ms=wait_ms, note=watcher.note))
    setup_undo = stack.enter_context(ExitStack())
    pooled = conninfo is not entrance
    if pooled and spec.pooler.in_use:
        raise SetupError(
            f"{entrance.uri_without_password} is a pooler already",
            code="pooler-before-pooler",
            hint="name the server itself, and pgdyno starts a pooler in front of it",
        )
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
        facts["pooler_pairs"] = pooler_pairs(facts, entrance)
        if warning := pairs_warning(facts["pooler_pairs"]):
            watcher.note(f"warning: {warning}")
        if spec.load.protocol == "prepared" and not keeps_prepared(entrance):
            watcher.note(f"warning: {_UNPREPARED}")
    else:
        if warning := check_connections(spec, facts, conninfo):
            watcher.note(f"warning: {warning}")
    if not (pooled or spec.pooler.in_use or any(each.own for each in workloads)):
        entrance = catalog_first(entrance)
    gateway = None if pooled else _in_front(spec, entrance, stack, watcher)
    facts["pooler"] = None if gateway is None else gateway.facts()
    return Target(
        # Settings under trial, such as timeouts, do not affect probes and set-up.
        server=without_time_limits(conninfo),
        gateway=gateway,
        users_pooler=entrance if pooled else None,
        server_settings=settings,
        facts=facts,
        cluster=None,
        sessions=None
        if pooled or spec.pooler.in_use or spec.http is not None
        else SessionSettings(without_time_limits(conninfo)),
        setup_undo=setup_undo,
    )


_UNPREPARED = (
    "the pooler lends its sessions for transactions and does not keep the clients' prepared"
    " statements apart: those of the load will fail with 26000 and 42P05. Use -M extended or -M"
    " simple;"
    " PgBouncer 1.21 and later can, with max_prepared_statements"
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
