"""What a draw consists of: tables, statements, causes, and the load that they make."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field

Chance = random.Random
Scope = Literal["system", "database", "role"]


def place(*words: object) -> int:
    """Return a whole number that depends on the words alone, the same on every machine."""
    text = "/".join(map(str, words))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


class Setting(Struct, frozen=True):
    """A row of pg_settings."""

    name: str
    category: str
    context: str
    vartype: str
    boot: str
    """Value at the start of a server without any configuration."""
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()
    """Of an enum."""


class ServerFacts(Struct, frozen=True):
    """What draws depend on beside the seed."""

    version: int
    settings: Mapping[str, Setting]
    jit: bool = False
    """True if the build can compile statements."""


class Right(Struct, frozen=True):
    """The answers that name a cause, and those that deny it.

    A finding names the cause with its undo if it proposes a change of one of the ``settings``, an
    index that begins with ``index``, one of the ``keys`` of a change, or if one of its commands
    contains a word of ``commands``. Where there is none of these, pgdyno cannot undo the cause, and
    the ID is enough.
    """

    findings: tuple[str, ...] = ()
    """IDs of findings that name the cause. The rule of the first must not clear it."""
    settings: tuple[str, ...] = ()
    index: tuple[str, str] | None = None
    """Table and first column."""
    keys: tuple[str, ...] = ()
    """``pool_max``, ``clients``, or dotted keys of the spec such as ``load.protocol``."""
    commands: tuple[str, ...] = ()
    """Words of SQL."""
    objects: tuple[str, ...] = ()
    """Names in the database; a finding whose evidence has one names the cause."""
    denied_by: tuple[str, ...] = ()
    """IDs of other rules that must not clear it."""

    @property
    def can_be_undone(self) -> bool:
        """True if pgdyno has a way to undo the cause."""
        return bool(self.settings or self.index or self.keys or self.commands)


class Fault(Struct, frozen=True):
    """A cause as it was drawn: how to plant it, how to undo it, and the answers that are right.

    A bait is the reverse: nothing is wrong, and its ``undo`` is a remedy that promises much and
    does nothing.
    """

    entry: str
    kind: str
    right: Right
    plant: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    scope: Scope = "system"
    restart: bool = False
    """True if its settings need a restart."""
    clients: int | None = None
    pool: int | None = None
    protocol: str | None = None
    reconnects: bool = False
    """True if each transaction has a connection of its own."""
    swaps: Mapping[str, str] = field(default_factory=dict)
    """Text of the scripts → the text in its place while the cause is planted."""
    beside: Mapping[str, float] = field(default_factory=dict)
    """What runs beside the load or in front of the server (``beside.py``) → its strength."""
    bait: bool = False

    def costs_planning(self, server: ServerFacts) -> bool:
        """True if it may decide how often, or for how long, statements are planned."""
        known = (server.settings[name] for name in self.settings if name in server.settings)
        is_planner = any(each.category.startswith("Query Tuning") for each in known)
        return is_planner or self.protocol is not None

    @property
    def text(self) -> str:
        """What is planted, in one line."""
        settings = ", ".join(f"{name} = {value}" for name, value in self.settings.items())
        where = "" if self.scope == "system" or not settings else f" for the {self.scope}"
        load = {"clients": self.clients, "pool": self.pool, "protocol": self.protocol}
        words = [
            settings + where,
            *self.plant,
            *(f"{name} {value}" for name, value in load.items() if value is not None),
            "a connection for each transaction" if self.reconnects else "",
            *self.swaps.values(),
            *(f"{name} {strength:g}" for name, strength in self.beside.items()),
            f"bait: {'; '.join(self.undo)}" if self.bait else "",
        ]
        return "; ".join(word for word in words if word)


class Names(Struct, frozen=True):
    """Names and sizes of a schema. Texts of statements and causes refer to them in braces."""

    parent: str
    child: str
    log: str
    small: str
    kind: str
    amount: str
    parents: int
    children: int
    logs: int
    smalls: int
    kinds: int
    width: int
    """Characters of filler in a row of the child table."""
    partitions: int = 0
    """Of the child table, by ranges of its ID; 0: it is not partitioned."""

    def fill(self, text: str, **more: object) -> str:
        """Return a text with the names in its braces filled in."""
        return text.format_map({**self.in_braces(), **more})

    def in_braces(self) -> dict[str, object]:
        """Return the words that texts may have in braces."""
        known: dict[str, object] = {name: getattr(self, name) for name in self.__struct_fields__}
        return {**known, "parent_id": f"{self.parent}_id", "child_id": f"{self.child}_id"}


class Statement(Struct, frozen=True):
    """A kind of statement that a load may have: ``\\set`` lines and SQL, with names in braces."""

    name: str
    text: str
    order: int = 0
    """Place within a transaction of several, so that locks are taken in one order; 0: it reads."""
    needs: tuple[str, ...] = ()
    """Parts of the schema that are made for it alone (``schema.py``)."""
    weight: float = 1.0
    """How often it is drawn without being asked for."""


class Script(Struct, frozen=True):
    """A script of the load."""

    text: str
    weight: int


class Load(Struct, frozen=True):
    """A drawn load, without causes."""

    names: Names
    parts: frozenset[str]
    """Parts of the schema that its statements need."""
    statements: tuple[str, ...]
    scripts: tuple[Script, ...]
    protocol: str
    clients: int
    rate_share: float | None
    """Rate as a part of what the server can do; ``None``: a closed loop."""
    process: str = "poisson"


class Draft(Struct, frozen=True):
    """What an entry of the grammar may draw from."""

    chance: Chance
    server: ServerFacts
    names: Names

    def fill(self, texts: Sequence[str], **more: object) -> tuple[str, ...]:
        """Return texts with the names in their braces filled in."""
        return tuple(self.names.fill(text, **more) for text in texts)


class Entry(Struct, frozen=True):
    """An entry of the grammar: one cause."""

    name: str
    kind: str
    """The row of the table in which it is counted."""
    right: Right = Right()
    plant: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    """SQL, with names in braces."""
    loads: tuple[str, ...] = ()
    """Kinds of statements, one of which the load has; empty: any load."""
    alone: bool = False
    """True if the load has no other statements, which would hide it."""
    protocols: tuple[str, ...] = ()
    clients: tuple[int, int] | None = None
    """Fewest and most clients of the load."""
    partitions: tuple[int, int] | None = None
    fault: Callable[[Draft], Mapping[str, Any] | None] | None = None
    """Draws what is not the same each time: members of :class:`Fault` that replace those of the
    entry; ``None`` if the server has nothing to draw from."""
    bait: bool = False

    def drawn(self, draft: Draft) -> Fault | None:
        """Return the cause with everything drawn; ``None`` if this server has nothing like it."""
        more = self.fault(draft) if self.fault else {}
        if more is None:
            return None
        right = filled(self.right, draft.names, tuple(more.get("settings", ())))
        members: dict[str, Any] = {
            "plant": draft.fill(self.plant),
            "undo": draft.fill(self.undo),
            "right": right,
            **more,
        }
        return Fault(entry=self.name, kind=self.kind, bait=self.bait, **members)


def filled(right: Right, names: Names, settings: tuple[str, ...] = ()) -> Right:
    """Return the right answers with the names in their braces filled in, and with ``settings``."""
    index = right.index and tuple(names.fill(each) for each in right.index)
    words = {
        name: tuple(names.fill(each) for each in getattr(right, name))
        for name in ("commands", "objects")
    }
    return Right(
        findings=right.findings,
        settings=(*settings, *right.settings),
        index=index,  # type: ignore[arg-type]
        keys=right.keys,
        denied_by=right.denied_by,
        **words,
    )


class Draw(Struct, frozen=True):
    """A load with its causes."""

    seed: int
    version: int
    load: Load
    faults: tuple[Fault, ...]

    @property
    def healthy(self) -> bool:
        """True if nothing is planted."""
        return not self.faults
