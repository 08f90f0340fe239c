"""The server under load: an embedded one, which exists as long as the run, or an existing one."""

from __future__ import annotations

import resource
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdyno.conduct._starting import installation_of
from pgdyno.errors import SetupError, UsageError
from pgdyno.kernel import KernelChanges
from pgdyno.record.facts import ServerFacts
from pgdyno.server import ConnInfo, SessionSettings, Settings, connect
from pgdyno.server.connecting.conninfo import Host
from pgdyno.server.sql_files import query
from pgdyno.spec import Spec
from pgdyno.spec.age import Ids, unfit_setting
from pgdyno.spec.sql_text import quoted
from pgdyno.spec.units import parse_size_bytes

if TYPE_CHECKING:
    from pgdyno.conduct._other_servers import OtherServers
    from pgdyno.disk import OpenDisks
    from pgdyno.front import Application
    from pgdyno.pooler import Gateway
    from pgdyno.server import Cluster
    from pgdyno.server.local.snapshots import Snapshot
    from pgdyno.server.replication.receivers import Receivers

# Files in addition to the connections: probes, the run file, libraries, descriptors of threads.
_OTHER_FILES = 100


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
    """The database server itself, for probes and settings; None: there is none."""
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
    """Applies settings to the load's sessions instead of the server; on one that pgdyno started,
    only those that a role or the database sets. None with a pooler, which would pass such sessions
    on to other clients, and for a web server, whose sessions are its own."""
    primaries: tuple[Host, ...] = ()
    """Servers among which clients look for the one that accepts writes; empty: there is one."""
    _gateway_of: int | None = None
    """PID of the server that the pooler was started for."""
    kernel: KernelChanges = field(default_factory=KernelChanges)
    """Parameters of this machine's kernel that the run changes."""
    others: OtherServers | None = None
    """Servers that can take turns with the embedded one."""
    load_user: str | None = None
    """Role that executes the load and its setup; None: that of ``server``."""
    setup_undo: ExitStack = field(default_factory=ExitStack)
    """Removes the objects made for a run that fails before it has its tables."""

    @property
    def conninfo(self) -> ConnInfo:
        """Connection values of the database server. Raises UsageError if there is none."""
        if self.server is None:
            raise _no_database()
        return self.server

    @property
    def of_load(self) -> ConnInfo:
        """Connection values of the database server for statements, tables and setup of the load.
        Raises UsageError if there is none."""
        return self.for_load(self.conninfo)

    def for_load(self, server: ConnInfo) -> ConnInfo:
        """Return connection values of a server, or of its standby, for those of the load."""
        return server if self.load_user is None else replace(server, user=self.load_user)

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
            return replace(self.of_load, hosts=self.primaries, options=options)
        if self.gateway is not None:
            return self.gateway.entrance
        return self.users_pooler or self.of_load

    def renew_gateway(self) -> None:
        """Start a pooler again whose server was started again: some take it for lost, or wait
        before they connect to it."""
        if self.gateway is not None and self.cluster is not None:
            if self._gateway_of not in (None, self.cluster.pid):
                self.gateway.restart()
            self._gateway_of = self.cluster.pid

    def renew_sessions(self) -> bool:
        """End the sessions that a pooler, or a front end of pgdyno's, keeps for the load; none may
        run. False if the pooler is the user's and does not let pgdyno do so."""
        if self.gateway is not None:
            self.gateway.restart()
        if self.application is not None:
            self.application.renew_sessions()
        if self.users_pooler is None:
            return True
        from pgdyno.pooler.pairs import reconnect

        return reconnect(self.users_pooler)

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
            row = conn.execute(query("server", "may_checkpoint")).fetchone()
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


def check_binaries(spec: Spec) -> None:
    """Raise UsageError or SetupError when the binaries of the server that ``spec`` starts are
    missing, or would refuse its settings. Starts nothing."""
    check_settings(spec, spec.server.settings)


def check_settings(spec: Spec, *given: Mapping[str, str]) -> None:
    """Raise as :func:`check_binaries` does, for all of the ``given`` settings at once."""
    from pgdyno.server.local.startup import check_before_start
    from pgdyno.server.replication.patroni import check_passed_on

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
