"""SQL of the user's in an undo record: what was run, what undoes it, and how far it has come."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import asdict, replace

from pgdyno.json_types import Json
from pgdyno.spec.own_sql import title_of_sql

State = Literal["making", "begun", "made", "undoing", "undone"]


class RecordedSql(Struct, frozen=True):
    """Statements that a run executes on a user's server, and those that undo them."""

    make: tuple[str, ...]
    undo: tuple[str, ...]
    """Those that are left to be run."""
    database: str
    schemas: tuple[str, ...]
    """Those in which the statements find names without a schema."""
    state: State = "undone"
    """Its progress:

    - making: made if the transaction ``xid`` is committed;
    - begun: some of it may be made, by statements that run outside a transaction;
    - made: it is in force;
    - undoing: undone if the transaction ``xid`` is committed; without one, the first of ``undo``
      may have been run;
    - undone: nothing of it is in force.
    """
    xid: str | None = None

    @property
    def title(self) -> str:
        """The change in one line."""
        return title_of_sql(self.make)

    def at(self, state: State, xid: str | None = None) -> RecordedSql:
        """Return it in another state."""
        return replace(self, state=state, xid=xid)

    def within(self, schemas: tuple[str, ...]) -> RecordedSql:
        """Return it with the schemas in which names are found."""
        return replace(self, schemas=schemas)

    def settled(self, *, committed: bool) -> RecordedSql:
        """Return it after the end of the transaction that was under way."""
        before: State = "made" if self.state == "undoing" else "undone"
        after: State = "undone" if self.state == "undoing" else "made"
        return self.at(after if committed else before)

    def to_json(self) -> dict[str, object]:
        """Return the fields for an undo record."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Json) -> RecordedSql:
        """Return what an undo record has; KeyError, TypeError or ValueError if invalid."""
        if fields["state"] not in get_args(State):
            raise ValueError
        lists = {name: tuple(map(str, fields[name])) for name in ("make", "undo", "schemas")}
        return cls(**{**fields, **lists})
