"""The entrance of one server for clients: the server itself, or a pooler in front of it.

:meth:`Gateway.arrange` changes it, while no load runs. Only the clients go through it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgdyno.json_types import Row
from pgdyno.pooler._kind import Ineffective, Version, check_names, clients_of, kinds
from pgdyno.pooler._process import PoolerProcess, installed, version_of
from pgdyno.server import ConnInfo
from pgdyno.spec import Spec
from pgdyno.spec.connections import clients_stay
from pgdyno.spec.pooler import PoolerSpec

_LOGS_KEPT = 3
"""Logs of earlier poolers that are kept."""


class Gateway:
    """The entrance of a server for its clients."""

    def __init__(self, server: ConnInfo) -> None:
        """Begin without a pooler: clients connect to ``server``."""
        self._server = server
        self._process: PoolerProcess | None = None
        self._spec: Spec | None = None
        self._logs: list[str] = []

    @property
    def spec(self) -> PoolerSpec:
        """The pooler that is there."""
        return PoolerSpec.default() if self._spec is None else self._spec.pooler

    @property
    def entrance(self) -> ConnInfo:
        """Connection values for the clients."""
        return self._server if self._process is None else self._process.conninfo

    def suits(self, spec: Spec) -> bool:
        """True if the poolers that run are those of ``spec``."""
        if self._spec is None or not spec.pooler.in_use:
            return self._spec is None and not spec.pooler.in_use
        return self.spec == spec.pooler and clients_of(self._spec) == clients_of(spec)

    def follows(self, spec: Spec) -> bool:
        """True if the pooler that is there can go to ``spec`` while the load runs."""
        if self._spec is None or self._process is None or spec.pooler.kind != self.spec.kind:
            return False
        same_clients = clients_of(self._spec) == clients_of(spec)
        return same_clients and self._process.kind.follows(self._spec, spec)

    def follow(self, spec: Spec) -> None:
        """Let the pooler that is there go to ``spec``. Raises SetupError."""
        assert self._process is not None
        assert self._spec is not None
        self._process.follow(self._spec, spec)
        self._spec = spec

    def arrange(self, spec: Spec) -> None:
        """Start the pooler of ``spec`` in place of the present one; no load may run.

        Raises SetupError if it does not start, or cannot serve the spec's load.
        """
        self.close()
        if spec.pooler.in_use:
            self._process = PoolerProcess(kinds()[spec.pooler.kind], spec, self._server)
            self._spec = spec

    def try_out(self, spec: Spec) -> None:
        """Start and end the pooler of ``spec`` beside the present one, to see that it can."""
        check_pooler(spec)
        if spec.pooler.in_use:
            PoolerProcess(kinds()[spec.pooler.kind], spec, self._server).close()

    def restart(self) -> None:
        """Start the pooler again, for a server that was restarted."""
        if self._spec is not None:
            self.arrange(self._spec)

    def move_to(self, server: ConnInfo) -> None:
        """Let clients reach another server from now on: through the pooler if there is one."""
        self._server = server
        if self._process is not None:
            self._process.move_to(server)

    def check(self) -> None:
        """Raise RunError if the pooler has ended by itself."""
        if self._process is not None:
            self._process.check()

    def facts(self) -> Row | None:
        """Return the pooler that is there, for the run file; ``None`` without one."""
        if self._process is None:
            return None
        return {
            **self.spec.model_dump(mode="json"),
            "title": self._process.title,
            "uri": self._process.conninfo.uri_without_password,
        }

    def queues(self) -> list[Row]:
        """Return the pooler's queues now, as rows of metric_pooler; empty without a pooler.

        May be called from another thread; an error means that they cannot be told now.
        """
        process = self._process
        return [] if process is None else process.queues()

    def logs(self) -> str:
        """Return the end of the logs of all poolers so far."""
        now = [] if self._process is None else [self._process.log]
        return "".join([*self._logs, *now])

    def close(self) -> None:
        """End the pooler."""
        process, self._process, self._spec = self._process, None, None
        if process is not None:
            self._logs = [*self._logs, process.log][-_LOGS_KEPT:]
            process.close()


def check_pooler(spec: Spec) -> None:
    """Raise SetupError for a pooler that is not installed, or cannot serve the spec's load.

    Starts nothing.
    """
    if spec.pooler.in_use:
        kind = kinds()[spec.pooler.kind]
        installed(kind)
        check_names(kind, spec.pooler.settings)
        kind.check(spec, version_of(kind))


def moves(spec: PoolerSpec) -> bool:
    """True if the pooler can be told to connect to another server while clients use it."""
    return kinds()[spec.kind].reload_signal is not None


def warnings(spec: Spec) -> Iterator[str]:
    """Yield warnings about work that does not get through the pooler as may be expected."""
    if spec.pooler.in_use:
        kind = kinds()[spec.pooler.kind]
        version, settings = version_of(kind), spec.pooler.settings
        yield from kind.warnings(spec, version)
        for each in kind.without_effect(settings, version, stay=_stay(spec)):
            yield f"{each.why}; {each.instead}"


def without_effect(
    kind: str, settings: Mapping[str, str], version: Version, *, stay: bool
) -> list[Ineffective]:
    """Return the settings of a pooler that have no effect; ``stay``: all clients remain
    connected."""
    return list(kinds()[kind].without_effect(settings, version, stay=stay))


def _stay(spec: Spec) -> bool:
    return clients_stay(spec.model_dump(mode="json", by_alias=True))


def server_connections(spec: Spec) -> int:
    """Return how many connections to the server the pooler may make."""
    return kinds()[spec.pooler.kind].server_connections(spec)
