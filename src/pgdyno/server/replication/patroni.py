"""A Patroni cluster: the servers that pgdyno made, run by Patroni, with a store beside them.

The servers are made as without a manager: the primary, and standbys from base backups of it. Then
they are shut down, and Patroni starts them. It promotes and rewinds, sets what commits wait for,
and makes the replication slots. When one of the servers is shut down by pgdyno, the whole cluster
ends, and the servers can be started without Patroni again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from pgdyno.errors import RunError, SetupError, UsageError
from pgdyno.json_types import Json
from pgdyno.server.connecting.connect import connect
from pgdyno.server.local.cluster import Cluster
from pgdyno.server.local.guarded import Guarded
from pgdyno.server.local.programs import find_program, free_ports
from pgdyno.server.replication._patroni_node import Common, PatroniNode
from pgdyno.server.replication._relay import Relay
from pgdyno.server.replication._store import Store, installed_store
from pgdyno.server.replication.standby import Standby
from pgdyno.spec.standby import MODE_SETTINGS, StandbySpec, manager_seconds, typed_manager_settings

PRIMARY_NAME = "pgdyno_primary"
"""Name of the node that is the first leader."""
_READY_S_MAX = 120.0
_POLL_S = 0.05
_LOOP_WAIT_S = 1
"""loop_wait while the cluster starts."""
_NO_CLIENT = "Can not find suitable configuration of distributed configuration store"
_PORT_TAKEN = "Address already in use"
_PACKAGES = (
    "apt-get install patroni python3-etcd etcd-server, or pip install 'patroni[etcd3]' and etcd"
)
_LEAST = {
    "max_connections": 25,
    "max_wal_senders": 3,
    "max_replication_slots": 4,
    "max_locks_per_transaction": 32,
    "max_worker_processes": 2,
}
"""Values below which Patroni uses its own (``CMDLINE_OPTIONS`` in its source)."""
PASSED_ON = (*_LEAST, "max_prepared_transactions", "wal_level", "track_commit_timestamp")
"""Settings that Patroni gives a server on its command line. It is told those of the primary when it
starts, and so whenever the primary was started again; a standby whose control file has a higher
value keeps that until it has replayed the change."""


def check_programs() -> None:
    """Raise SetupError if Patroni or a store is not installed. Starts nothing."""
    _patroni()
    _store()


def check_passed_on(settings: Mapping[str, str]) -> None:
    """Raise UsageError for a setting of the servers that Patroni would replace by its own."""
    for name, value in settings.items():
        least = _LEAST.get(name.lower(), 0)
        if value.strip().isdecimal() and int(value) < least:
            raise UsageError(
                f"{name} = {value}: Patroni accepts no less than {least}",
                code="manager-setting",
                hint=f"use {least} or more, or standbys without a manager",
            )


def check_cut_off() -> None:
    """Raise SetupError if nodes cannot be cut off from the installed store.

    Patroni's raft tells the nodes its own address, so that they go around a relay.
    """
    if not _store().relayed:
        raise SetupError(
            "a node cannot be cut off from Patroni's own raft",
            code="manager-missing",
            hint="apt-get install python3-etcd etcd-server",
        )


class Patroni:
    """A running cluster. ``close`` ends it and leaves the servers stopped."""

    def __init__(
        self, spec: StandbySpec, primary: Cluster, standbys: Sequence[Standby], *, relayed: bool
    ) -> None:
        """Start it on a running primary and its standbys; return when all stream.

        With ``relayed``, nodes can be cut off. Raises SetupError.
        """
        self.spec = spec
        self._relayed = relayed
        self._patroni, store = _patroni(), _store()
        settings = {**self._settings(primary), "loop_wait": _LOOP_WAIT_S}
        password = primary.conninfo_tcp.password or ""
        self._user = primary.conninfo.user
        for cluster in (*(each.cluster for each in standbys), primary):
            cluster.stop()
        self.nodes: list[PatroniNode] = []
        self._store_relays: dict[str, Relay] = {}
        self._store: Store | None = store(primary.directory)
        try:
            self._start(primary, standbys, settings, password)
        except BaseException:
            self.close()
            raise

    def _start(
        self,
        primary: Cluster,
        standbys: Sequence[Standby],
        settings: Json,
        password: str,
    ) -> None:
        named = [(PRIMARY_NAME, primary), *((each.name, each.cluster) for each in standbys)]
        for (name, cluster), port in zip(named, free_ports(len(named)), strict=True):
            node = PatroniNode(
                name, cluster, port, relayed=self._relayed, delay_ms=self.spec.delay_ms
            )
            node.end_cluster = self._end
            self.nodes.append(node)
        for node in self.nodes:
            node.start(Common(self._patroni, self._store_of(node), settings, self._user, password))
            if node.cluster is primary:
                self._wait(node, lambda: self.nodes[0].is_primary, "did not become the primary")
        for node in self.nodes[1:]:
            self._wait(node, partial(_is_replica, node), "did not become a standby")
        if self.spec.waits:
            first = self.nodes[0]
            self._wait(first, self._commits_wait, "did not make commits wait for a standby")
        loop_wait = manager_seconds(self.spec.manager_settings, "loop_wait")
        if loop_wait != _LOOP_WAIT_S:
            self.nodes[0].ask("/config", method="PATCH", body={"loop_wait": loop_wait})

    @property
    def running(self) -> bool:
        """True until it is ended."""
        return self._store is not None

    @property
    def store_process(self) -> Guarded:
        """The process of the store."""
        assert self._store is not None
        return self._store.process

    @property
    def store_name(self) -> str:
        """Name of the store: ``etcd`` or ``raft``."""
        assert self._store is not None
        return self._store.name

    def node_of(self, cluster: Cluster) -> PatroniNode:
        """Return the node of a server."""
        return next(node for node in self.nodes if node.cluster is cluster)

    def primary(self) -> PatroniNode | None:
        """Return the node that has the leader lock and accepts writes, if there is one."""
        return next((node for node in self.nodes if node.running and node.is_primary), None)

    def history(self) -> list[Any]:
        """Return the changes of the leader that Patroni has recorded."""
        for node in self.nodes:
            if node.running and (answer := node.ask("/history")).ok:
                return list(answer.value)
        return []

    def switch_over(self) -> None:
        """Ask Patroni for a switchover to any standby; return when it is done.

        Raises RunError when Patroni refuses.
        """
        leader = self.primary()
        answer = (
            None
            if leader is None
            else leader.ask(
                "/switchover",
                method="POST",
                body={"leader": leader.name},
                seconds_max=_READY_S_MAX,
            )
        )
        if answer is None or not answer.ok:
            said = "there is no leader" if answer is None else str(answer.value).strip()
            raise RunError(f"Patroni refused the switchover: {said}", code="switchover-refused")

    def cut_off(self, cluster: Cluster) -> None:
        """Cut a server's node off from the store and from the other nodes, but not from clients."""
        node = self.node_of(cluster)
        self._store_relays[node.name].hold()
        node.hold()

    def check(self) -> None:
        """Raise RunError if a part of it has ended by itself."""
        if self._store is None:
            return
        if not self._store.process.running:
            raise RunError(
                f"{self._store.name} {self._store.process.how_it_ended} during the run:"
                f" {self._store.last_words}",
                code="manager-store-gone",
                hint="without it Patroni demotes the primary",
            )
        for node in self.nodes:
            node.check()

    def mode_settings(self) -> dict[str, str]:
        """Return the primary's settings for the replication mode, which Patroni has set."""
        if not self.spec.waits:
            return {}
        names = list(MODE_SETTINGS)
        with connect(self.nodes[0].cluster.conninfo) as conn:
            rows = conn.execute(
                "select name, setting from pg_settings where name = any(%s)", [names]
            )
            return dict(rows.fetchall())

    def log(self) -> str:
        """Return the logs of Patroni on all nodes."""
        return "".join(f"{node.name}:\n{node.log}" for node in self.nodes)

    def close(self) -> None:
        """End it: the standbys at once, then the primary, and the store. May be repeated."""
        if self.running and (leader := self.primary()) is not None:
            with suppress(SetupError):  # One that hangs has been killed.
                leader.cluster.stop()
        for node in self.nodes:
            node.close()
        self._end_store()

    def _end(self, last: PatroniNode, at_once: bool) -> None:
        """End all nodes but one, which can no longer be promoted, then that one, then the
        store."""
        for node in self.nodes:
            if at_once or node is not last:
                node.kill()
        try:
            last.shut_down()
        finally:
            for node in self.nodes:
                node.close_relays()
            self._end_store()

    def _end_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()
        for relay in self._store_relays.values():
            relay.close()
        self._store_relays = {}

    def _store_of(self, node: PatroniNode) -> dict[str, object]:
        assert self._store is not None
        port = self._store.port
        if self._relayed:
            relay = self._store_relays[node.name] = Relay(("127.0.0.1", port))
            port = relay.port
        return self._store.section(port)

    def _settings(self, primary: Cluster) -> dict[str, object]:
        """Return Patroni's dynamic settings."""
        spec = self.spec
        with connect(primary.conninfo) as conn:
            rows = conn.execute(
                "select name, current_setting(name) from pg_settings where name = any(%s)",
                [list(PASSED_ON)],
            )
            parameters: dict[str, str] = dict(rows.fetchall())
        check_passed_on(parameters)
        if spec.waits or spec.mode == "local":
            parameters["synchronous_commit"] = spec.mode
        return {
            **typed_manager_settings(spec.manager_settings),
            "synchronous_mode": spec.waits,
            "synchronous_node_count": spec.quorum,
            "postgresql": {"use_slots": True, "parameters": parameters},
        }

    def _commits_wait(self) -> bool:
        """True if Patroni has noted as many synchronous standbys as it should: before that it
        promotes none, although commits wait for them already."""
        answer = self.nodes[0].ask("/cluster")
        members: list[Json] = answer.value["members"] if answer.ok else []
        return [each["role"] for each in members].count("sync_standby") >= self.spec.quorum

    def _wait(self, who: PatroniNode, reached: Callable[[], bool], what: str) -> None:
        """Wait until the cluster has reached a state. Raises SetupError."""
        deadline_s = time.monotonic() + _READY_S_MAX
        while not reached():
            if (ended := next((each for each in self.nodes if each.ended), None)) is not None:
                raise _start_failure(ended)
            if (store := self._store) is not None and not store.process.running:
                raise SetupError(
                    f"{store.name} has ended: {store.last_words}", code="manager-store"
                )
            if time.monotonic() > deadline_s:
                raise SetupError(
                    f"{who.name} of the Patroni cluster {what} within"
                    f" {_READY_S_MAX:.0f} s: {who.last_words}",
                    code="manager-silent",
                )
            time.sleep(_POLL_S)


def _is_replica(node: PatroniNode) -> bool:
    return node.is_replica


def _start_failure(node: PatroniNode) -> SetupError:
    """Return the error for a node whose Patroni has ended by itself before it was ready."""
    if _NO_CLIENT in node.server_log():
        return SetupError(
            "the installed Patroni has no client for the store",
            code="manager-missing",
            hint="apt-get install python3-etcd, or pip install 'patroni[etcd3]'",
        )
    reason = node.last_words
    if _PORT_TAKEN in reason:
        reason = f"its port, {node.port} on 127.0.0.1, is in use"
    return SetupError(f"Patroni of {node.name} does not start: {reason}", code="manager-start")


def _patroni() -> str:
    if (found := find_program("patroni")) is None:
        raise SetupError("Patroni is not installed", code="manager-missing", hint=_PACKAGES)
    return found


def _store() -> type[Store]:
    if (found := installed_store()) is None:
        raise SetupError(
            "neither etcd nor patroni_raft_controller is installed",
            code="manager-missing",
            hint=_PACKAGES,
        )
    return found
