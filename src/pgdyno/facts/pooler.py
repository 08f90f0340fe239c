"""The pooler between clients and server while some slices lasted, and its own view of its queues.

Slices may differ in it, so it is that of the spec with their change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pgdyno.dimension import fields_with
from pgdyno.spec.pooler import CLIENT_SETTINGS, SIZE_SETTINGS, TITLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pgdyno.record import RunFile
    from pgdyno.spec.change import Change

POOLED_MODES = ("transaction", "statement")
"""Modes in which a client gives its connection back before it disconnects."""


class PoolerInForce(Struct, frozen=True):
    """A pooler that pgdyno started."""

    kind: str
    version: tuple[int, ...]
    settings: Mapping[str, str]

    @property
    def name(self) -> str:
        """Its own name."""
        return TITLES[self.kind]

    @property
    def shares(self) -> bool:
        """True if a client holds a connection to the server only for a transaction or less."""
        return self.kind == "pgbouncer" and self.settings.get("pool_mode") in POOLED_MODES

    @property
    def size_setting(self) -> str | None:
        """The setting that is the size of its pool, if it has one."""
        return SIZE_SETTINGS.get(self.kind)

    @property
    def client_setting(self) -> str:
        """The setting that limits its clients."""
        return CLIENT_SETTINGS[self.kind]

    @property
    def clients_max(self) -> int | None:
        """The limit of its clients; None if pgdyno chose it, so that all have room."""
        return self._number(self.client_setting)

    @property
    def size(self) -> int | None:
        """The size of its pool for a user and a database, if it was set."""
        return self._number(self.size_setting or "")

    def _number(self, setting: str) -> int | None:
        text = self.settings.get(setting, "")
        return int(text) if text.isascii() and text.isdecimal() else None


class PoolerQueues(Struct, frozen=True):
    """Queues of a pooler by its own view, over time and all its pools; NaN for what it does not
    tell."""

    clients: NDArray[Any]
    """Clients that it has accepted."""
    waiting: NDArray[Any]
    """Of these, waiting for a connection to the server."""
    unaccepted: NDArray[Any]
    """Clients in its listen queue."""
    servers_active: NDArray[Any]
    servers_idle: NDArray[Any]

    @property
    def servers(self) -> NDArray[Any]:
        """Its connections to the server."""
        import numpy as np

        both: NDArray[Any] = self.servers_active + np.nan_to_num(self.servers_idle)
        return both

    @property
    def seen(self) -> bool:
        """True if the queues were sampled."""
        return bool(len(self.clients))


def pooler_of(run: RunFile, change: Change) -> PoolerInForce | None:
    """Return the pooler that pgdyno started for slices with ``change``; None without one."""
    table = fields_with(run.run.spec, change).get("pooler") or {}
    kind = table.get("kind", "none")
    if kind == "none":
        return None
    settings = {name: str(value) for name, value in (table.get("settings") or {}).items()}
    return PoolerInForce(kind, _version(run, kind), settings)


def _version(run: RunFile, kind: str) -> tuple[int, ...]:
    started = [run.run.server.get("pooler"), *(event.detail for event in run.events("pooler"))]
    title = next((each["title"] for each in started if each and each.get("kind") == kind), "")
    found = re.search(r"\d+(?:\.\d+)*", title)
    return tuple(map(int, found[0].split("."))) if found else ()


def pooler_queues(run: RunFile, slice_ids: list[int]) -> PoolerQueues:
    """Return the pooler's queues in the slices, by its own figures."""
    import numpy as np

    rows = run.series("metric_pooler", slice_ids)
    times, places = np.unique(rows["at_ms"], return_inverse=True)

    def summed(column: str) -> NDArray[Any]:
        return np.bincount(places, weights=rows[column].astype(float), minlength=len(times))

    return PoolerQueues(
        clients=summed("clients"),
        waiting=summed("clients_waiting"),
        unaccepted=summed("listen_queue"),
        servers_active=summed("servers_active"),
        servers_idle=summed("servers_idle"),
    )
