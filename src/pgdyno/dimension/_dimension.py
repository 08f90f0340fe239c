"""What a dimension is, and what it works on when it is put in force.

One half is pure: spec and title. The other half carries a step out; the server, the load and the
session's connections are handed to it, so that a dimension imports no conductor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

from pgdyno.errors import SetupError
from pgdyno.spec import Change, Spec
from pgdyno.spec.keys import set_key

if TYPE_CHECKING:
    import psycopg

    from pgdyno.disk import OpenPlaces
    from pgdyno.record import Recorder
    from pgdyno.server import Cluster, ConnInfo, SessionSettings, Settings
    from pgdyno.server.replication.receivers import Receivers

Fields = dict[str, Any]
"""A spec in the shape of its TOML document."""


class Need(IntEnum):
    """What it takes to get from one slice to the next; each contains those before it."""

    NOTHING = 0
    RELOAD = 1
    """The load runs on: a reload, a statement, or a word to the load engine."""
    LOAD_RESTART = 2
    REWRITE = 3
    """Tables are rewritten, while no load runs."""
    SERVER_RESTART = 4


class Server(Protocol):
    """The server under load, as a dimension sees it."""

    conninfo: ConnInfo
    settings: Settings
    facts: dict[str, Any]
    cluster: Cluster | None
    places: OpenPlaces | None
    receivers: Receivers | None
    sessions: SessionSettings | None

    @property
    def ours(self) -> bool:
        """Whether pgdyno started it."""

    @property
    def checksums(self) -> bool:
        """Whether its data pages have checksums."""

    def in_sessions(self, name: str) -> bool:
        """Whether a setting is given to the load's own sessions alone."""

    def needs_apply(self, settings: Iterable[str]) -> list[str]:
        """Of these settings, those for which a server that is not ours has to be changed."""

    def refuse_restart(self, names: Iterable[str]) -> None:
        """Raise SetupError for what needs a restart, unless the server is ours."""


class Load(Protocol):
    """The running load, as far as it can be told something."""

    def set_pool_max(self, group: str, pool_max: int | None) -> None:
        """Change the size of a group's pool; ``None`` takes it away."""

    def set_clients(self, group: str, clients: int) -> None:
        """Change how many clients of a group run."""

    def set_rate(self, group: str, factor: float) -> None:
        """Multiply the rate of an open loop."""


@dataclass
class Place:
    """Where changes are put in force: a session's server, and what there is to work with."""

    base: Spec
    """What changes are against."""
    server: Server
    recorder: Recorder
    note: Callable[[str], None]
    """Tells whoever watches."""
    by_events: dict[str, str] = field(default_factory=dict)
    """Settings that events of the run changed."""
    remembered: dict[str, Any] = field(default_factory=dict)
    """What a dimension has to know at its next step, by its id."""

    def connect(self) -> psycopg.Connection:
        """A control connection in autocommit, beside the load."""
        from pgdyno.server import connect

        return connect(self.server.conninfo)

    def run_sql(self, statement: str) -> None:
        """Run one statement on a connection of its own, beside the load. Raises SetupError."""
        run_sql(self.server.conninfo, statement)


def run_sql(conninfo: ConnInfo, statement: str) -> None:
    """Run one statement on a connection of its own. Raises SetupError."""
    import psycopg

    from pgdyno.server import connect

    try:
        with connect(conninfo) as connection:
            connection.execute(statement.encode())
    except psycopg.Error as problem:
        message = (problem.diag.message_primary or str(problem)).strip()
        raise SetupError(f"{statement}: {message}", code="statement-failed") from None


@dataclass(frozen=True)
class Step:
    """From the change in force to the next one."""

    start: Change
    to: Change
    was: Spec
    """The spec with ``start``, less what is told to a running load or server (``live``)."""
    wanted: Spec
    """The spec with ``to``, in the same way."""
    needs: Mapping[str, Need] = field(default_factory=dict)
    """By dimension; one that needs nothing is left out."""

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return self.start != self.to

    @property
    def need(self) -> Need:
        """What it takes as a whole."""
        return max(self.needs.values(), default=Need.NOTHING)


class Dimension:
    """One thing that two slices can differ in. What is not overridden needs nothing."""

    id: str
    order: int
    """Its place among the dimensions: in titles, and in being put in force."""
    live: bool = False
    """Whether it is told to the running load or server, so that a load begins without it."""
    keys: str = ""
    """The keys of the spec that it takes, as a hint names them."""

    # -- pure: words, specs and titles -----------------------------------------------------------

    def owns(self, key: str) -> bool:
        """Whether it takes this dotted key of a change."""
        return False

    def read(self, key: str, value: str, spec: Spec | None) -> Change | None:
        """The change that ``key = value`` asks for; ``None`` where it is another dimension's.

        ``spec``, if known, is what the change is against, and takes the value.
        """
        return Change(spec={key: value}) if self.owns(key) else None

    def enter(self, fields: Fields, change: Change) -> None:
        """Put its part of ``change`` into ``fields``. Raises UsageError."""

    def titles(self, change: Change, before: Mapping[str, Any] | None) -> Iterable[str]:
        """Its part of ``change`` in a few words each; ``before`` are the fields of the spec as it
        was, where they are known."""
        return ()

    # -- putting it in force ---------------------------------------------------------------------

    def provide(self, change: Change, place: Place, *, under_load: bool) -> None:
        """Get what ``change`` needs, so that what is missing fails now. Raises PgdynoError.

        Without a load nothing of ours is in force, and what needs no restart may be tried out.
        """

    def needs(self, step: Step, place: Place) -> Need:
        """What its part of ``step`` takes."""
        return Need.NOTHING

    def names(self, step: Step) -> list[str]:
        """What differs, for a message."""
        return [self.id]

    def apply(self, step: Step, place: Place) -> None:
        """Carry its part out, also what takes it back, while the server runs."""

    def while_down(self, step: Step, place: Place) -> None:
        """Carry out what can only be done while a server of ours is down."""

    def take_out(self, change: Change, step: Step, place: Place) -> Change:
        """Once the server has not started with it: leave it out, and out of ``change``, which is
        then in force. The server is down."""
        return change

    def tell(self, step: Step, load: Load) -> None:
        """Tell the running load, which may have begun just now."""


class KeyDimension(Dimension):
    """A dimension whose part of a change is keys of the spec: by default the load starts afresh."""

    def mine(self, change: Change) -> dict[str, str]:
        """Its keys with their values."""
        return {key: value for key, value in change.spec.items() if self.owns(key)}

    def enter(self, fields: Fields, change: Change) -> None:
        """Set its keys."""
        for key, value in self.mine(change).items():
            set_key(fields, key, value)

    def titles(self, change: Change, before: Mapping[str, Any] | None) -> Iterable[str]:
        """As the user writes it."""
        return [f"{key} = {value}" for key, value in self.mine(change).items()]

    def needs(self, step: Step, place: Place) -> Need:
        """The load's configuration is another."""
        same = self.mine(step.start) == self.mine(step.to)
        return Need.NOTHING if same else Need.LOAD_RESTART
