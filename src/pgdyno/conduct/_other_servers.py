"""Servers that take turns with a session's first one: other versions, or other builds.

Only one of them runs at a time, at the address of the first, so that clients, probes and poolers
find it without knowing. Each has loaded its own tables, from the same spec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pgdyno.conduct._starting import installation_of
from pgdyno.conduct.watch import Watcher
from pgdyno.errors import PgdynoError, UsageError
from pgdyno.server import Cluster, Installation
from pgdyno.server.connecting.facts import Build, extensions_used, read_build
from pgdyno.server.local.cluster import Home
from pgdyno.spec import Spec

_Key = frozenset[tuple[str, str]]


class OtherServers:
    """The servers of a session, by the keys of the change that names each; no keys: the first."""

    def __init__(
        self, spec: Spec, cluster: Cluster, make_tables: Callable[[Spec], None], watcher: Watcher
    ) -> None:
        """``cluster`` runs the first server, which has its tables. ``make_tables`` makes those of
        the server that runs."""
        self._spec = spec
        self._cluster = cluster
        self._make_tables = make_tables
        self._watcher = watcher
        self._homes: dict[_Key, Home] = {}
        self._builds: dict[_Key, Build] = {}
        self._extensions: frozenset[str] = frozenset()

    def build(self, keys: Mapping[str, str]) -> Build:
        """Return the build of a server that was provided; without keys that of the first one, if
        another was provided."""
        return self._builds[_key(keys)]

    def is_there(self, keys: Mapping[str, str]) -> bool:
        """Return whether the server was provided."""
        return _key(keys) in self._homes

    def provide(self, keys: Mapping[str, str], spec: Spec) -> None:
        """Make the server of ``spec`` with its tables, unless it is there; the one that ran before
        runs again then. Raises UsageError, SetupError."""
        key = _key(keys)
        if key in self._homes:
            return
        check_turns(self._spec)
        before = self._cluster.home
        if not self._homes:
            self._builds[_key({})] = read_build(self._cluster.conninfo)
            self._extensions = extensions_used(self._cluster.conninfo)
            self._homes[_key({})] = before
        installation = installation_of(spec)
        with _named(installation):
            home = self._cluster.add_home(
                installation,
                {**self._cluster.settings, **spec.server.settings},
                checksums=spec.server.checksums,
            )
        self._watcher.phase(f"loading the tables of PostgreSQL {installation.version}")
        self._cluster.stop()
        try:
            self._cluster.move_to(home)
            with _named(installation):
                self._cluster.start()
                self._check_extensions(key)
                self._make_tables(spec)
            self._cluster.stop()
        finally:
            self._cluster.stop("immediate")
            self._cluster.move_to(before)
            self._cluster.start()
        self._homes[key] = home

    def enter(self, keys: Mapping[str, str]) -> None:
        """Let this server take its turn at the next start; none runs now."""
        if self._homes:
            self._cluster.move_to(self._homes[_key(keys)])

    def _check_extensions(self, key: _Key) -> None:
        """Raise UsageError if the server lacks an extension that the first one's tables use."""
        build = self._builds[key] = read_build(self._cluster.conninfo)
        if missing := sorted(self._extensions - build.extensions):
            raise UsageError(
                f"this build has no extension {', '.join(missing)}, which the tables of the load"
                " use",
                code="build-extension",
                hint="name a build that has it with --pg-bindir or --against; pgdyno server list",
            )


def _key(keys: Mapping[str, str]) -> _Key:
    return frozenset(keys.items())


def check_turns(spec: Spec) -> None:
    """Raise UsageError for a spec whose server cannot take turns with others. Starts nothing."""
    reasons = {
        "standby": spec.standby.receivers > 0,
        "server.snapshot": spec.server.snapshot is not None,
        "server.xid_age": spec.server.xid_age is not None,
        "server.mxid_age": spec.server.mxid_age is not None,
    }
    for key, given in reasons.items():
        if given:
            raise UsageError(
                f"{key} cannot be used where two versions are compared: it is of one of them",
                code="contradiction",
                hint=f"leave {key} out",
            )


@contextmanager
def _named(installation: Installation) -> Iterator[None]:
    """Name the server in messages: both are asked for the same."""
    try:
        yield
    except PgdynoError as problem:
        problem.message = (
            f"PostgreSQL {installation.version} in {installation.bindir}: {problem.message}"
        )
        raise
