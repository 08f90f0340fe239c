"""The interface of a dimension, the objects that it uses when it is applied, and the list of all in
the files of ``kinds/``.

One half is pure: spec and title. The other half carries out a transition, with the server, the load
and the session's connections as arguments, so that a dimension does not import the conductor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from pgdyno.errors import SetupError
from pgdyno.json_types import Fields
from pgdyno.registry import by_name, held_by
from pgdyno.spec import Change, Spec
from pgdyno.spec.keys import set_key

if TYPE_CHECKING:
    from pathlib import Path

    from pgdyno.disk import OpenDisks
    from pgdyno.front import Application
    from pgdyno.kernel import KernelChanges
    from pgdyno.pooler import Gateway
    from pgdyno.record import Recorder
    from pgdyno.record.facts import ServerFacts
    from pgdyno.server import Cluster, ConnInfo, SessionSettings, Settings
    from pgdyno.server.connecting.control import Control
    from pgdyno.server.replication.receivers import Receivers


class Need(IntEnum):
    """Action needed between one slice and the next; each includes those before it."""

    NOTHING = 0
    RELOAD = 1
    """The load continues: a reload, a statement, or a call of the load engine."""
    LOAD_RESTART = 2
    REWRITE = 3
    """Tables are rewritten, while no load runs."""
    SERVER_RESTART = 4


class ServerUnderLoad(Protocol):
    """The server under load, as dimensions use it."""

    facts: ServerFacts
    cluster: Cluster | None
    disks: OpenDisks | None
    receivers: Receivers | None
    gateway: Gateway | None
    users_pooler: ConnInfo | None
    application: Application | None
    sessions: SessionSettings | None
    kernel: KernelChanges

    @property
    def data_dir(self) -> Path | None:
        """Its data directory, if that is known and on this machine."""

    @property
    def conninfo(self) -> ConnInfo:
        """Connection values of the server."""

    @property
    def of_load(self) -> ConnInfo:
        """Connection values of the server for statements and tables of the load."""

    @property
    def settings(self) -> Settings:
        """Its settings."""

    @property
    def others(self) -> ServersInTurn | None:
        """Servers of other versions that can take its place; ``None`` if it is not pgdyno's."""

    @property
    def ours(self) -> bool:
        """True if pgdyno started it."""

    @property
    def checksums(self) -> bool:
        """True if its data pages have checksums."""

    def renew_sessions(self) -> bool:
        """End the sessions that a pooler, or a front end of pgdyno's, keeps for the load; none may
        run. False if the pooler is the user's and does not let pgdyno do so."""

    def in_sessions(self, name: str) -> bool:
        """True if a setting is applied to the load's sessions only."""

    def needs_apply(self, settings: Iterable[str]) -> list[str]:
        """Return those of the settings for which an existing server must be changed."""

    def refuse_restart(self, names: Iterable[str]) -> None:
        """Raise SetupError for a change that needs a restart, unless pgdyno started the server."""


class ServersInTurn(Protocol):
    """Servers that take turns with the first one, each with binaries, settings and data of its own;
    ``keys`` are those of the change that names one, none for the first."""

    def provide(self, keys: Mapping[str, str], spec: Spec) -> None:
        """Make the server of ``spec`` with its tables, unless it is there; the one that ran before
        runs again then. No load may run. Raises PgdynoError."""

    def enter(self, keys: Mapping[str, str]) -> None:
        """Let this server take its turn at the next start; none runs now."""


class Load(Protocol):
    """The running load, with the changes that need no restart of it."""

    def set_pool_max(self, group: str, pool_max: int | None) -> None:
        """Change the size of a group's pool; ``None`` removes it."""

    def set_clients(self, group: str, clients: int) -> None:
        """Change how many clients of a group run."""

    def set_rate(self, group: str, factor: float) -> None:
        """Multiply the rate of an open loop."""


class Context(Struct):
    """The server of a session to which changes are applied, and the session's state."""

    base: Spec
    """The spec that changes apply to."""
    server: ServerUnderLoad
    recorder: Recorder
    note: Callable[[str], None]
    """Shows a message to the user."""
    by_events: dict[str, str] = field(default_factory=dict)
    """Settings that events of the run changed."""
    remembered: Fields = field(default_factory=dict)
    """State of a dimension between transitions, by its id."""

    def connect(self) -> Control:
        """Open a control connection in autocommit mode, outside the load."""
        from pgdyno.server import connect

        return connect(self.server.conninfo)

    def connect_for_load(self) -> Control:
        """Open such a connection for work on the load's tables."""
        from pgdyno.server import connect

        return connect(self.server.of_load)

    def run_sql(self, statement: str) -> None:
        """Run one statement as ``run_sql`` does."""
        run_sql(self.server.of_load, statement)


def run_sql(conninfo: ConnInfo, statement: str) -> None:
    """Run one statement on a connection of its own, outside the load, which finds tables as the
    user writes them; it is DDL without an expression of ours. Raises SetupError."""
    import psycopg

    from pgdyno.server import connect_plain

    try:
        with connect_plain(conninfo) as connection:
            connection.execute(statement.encode())
    except psycopg.Error as problem:
        message = (problem.diag.message_primary or str(problem)).strip()
        raise SetupError(f"{statement}: {message}", code="statement-failed") from None


class Transition(Struct, frozen=True):
    """The transition from the active change to the next one."""

    before: Change
    after: Change
    spec_before: Spec
    """The spec with ``before``, without what is sent to a running load or server (``live``)."""
    spec_after: Spec
    """The spec with ``after``, in the same way."""
    needs: Mapping[str, Need] = field(default_factory=dict)
    """Needs by dimension, without dimensions that need nothing."""

    def __bool__(self) -> bool:
        """True if there is anything to do."""
        return self.before != self.after

    @property
    def need(self) -> Need:
        """The greatest of the needs."""
        return max(self.needs.values(), default=Need.NOTHING)


class Dimension:
    """Something in which two slices can differ. Methods not overridden do nothing."""

    id: str
    order: int
    """Its position among the dimensions: in titles, and when changes are applied."""
    live: bool = False
    """True if it is sent to the running load or server, so that a load begins without it."""
    two_sided: bool = False
    """True if a comparison takes ``KEY=A,B``, the values of its two sides."""
    keys: str = ""
    """The keys of the spec that it handles, as shown in a hint."""

    # -- pure: words, specs and titles -----------------------------------------------------------

    def owns(self, key: str) -> bool:
        """True if it handles this dotted key of a change."""
        return False

    def read(self, key: str, value: str, spec: Spec | None) -> Change | None:
        """Return the change for ``key = value``; ``None`` if the key is another dimension's.

        ``spec``, if known, is the spec that the change applies to, in which the value is valid.
        """
        return Change(spec={key: value}) if self.owns(key) else None

    def enter(self, fields: Fields, change: Change) -> None:
        """Put its part of ``change`` into ``fields``. Raises UsageError."""

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles of its part of ``change``, a few words each; ``before`` has the fields of
        the spec without the change, if known."""
        return ()

    # -- applying it -----------------------------------------------------------------------------

    def provide(self, change: Change, context: Context, *, under_load: bool) -> None:
        """Get what ``change`` needs, so that anything missing fails now. Raises PgdynoError.

        Without a load no change is active, and parts that need no restart may be tried out.
        """

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return the action that its part of ``transition`` needs."""
        return Need.NOTHING

    def names(self, transition: Transition) -> list[str]:
        """Return the names of the settings or keys that differ, for a message."""
        return [self.id]

    def apply(self, transition: Transition, context: Context) -> None:
        """Apply its part, or revert it, while the server runs."""

    def while_down(self, transition: Transition, context: Context) -> None:
        """Apply the part that can only be applied while the server, started by pgdyno, is down."""

    def revert(self, change: Change, transition: Transition, context: Context) -> Change:
        """Remove its part after the server failed to start with it, while the server is down.

        Returns ``change`` without that part: the change that is active then.
        """
        return change

    def adjust_load(self, transition: Transition, load: Load) -> None:
        """Send its part to the running load, which may have just started."""


class KeyDimension(Dimension):
    """A dimension whose part of a change is keys of the spec: by default the load restarts."""

    key: str
    """Its key; one with several keys overrides ``owns``."""

    def owns(self, key: str) -> bool:
        """True if it is its key."""
        return key == self.key

    def mine(self, change: Change) -> dict[str, str]:
        """Return its keys with their values."""
        return {key: value for key, value in change.spec.items() if self.owns(key)}

    def enter(self, fields: Fields, change: Change) -> None:
        """Set its keys."""
        for key, value in self.mine(change).items():
            set_key(fields, key, value)

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return each key and value as the user writes them."""
        return [f"{key} = {value}" for key, value in self.mine(change).items()]

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return LOAD_RESTART if a key differs."""
        same = self.mine(transition.before) == self.mine(transition.after)
        return Need.NOTHING if same else Need.LOAD_RESTART


@cache
def dimensions() -> tuple[Dimension, ...]:
    """Return every dimension, in the order in which they are applied and appear in titles."""
    from pgdyno.dimension import kinds as package

    found = by_name(held_by(package, Dimension), "dimensions", lambda each: each.id)
    return tuple(sorted(found.values(), key=lambda each: (each.order, each.id)))
