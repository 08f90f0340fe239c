"""Definition of a remedy, a named kind of change with its cost, and the list of all remedies in the
files of this directory.

A remedy defines the changes that it applies to (``touches``, ``when``), the most that they may lose
(``bound``, or ``risk`` if it depends on the change), the drills that show the loss, and what they
need. Durability classes are those of ``spec.durability``. Gains are predicted by ``diagnose`` and
measured by a trial. The server checks whether a value is in range.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Literal

from msgspec import Struct

from pgdyno.registry import by_name, held_by
from pgdyno.remedy.circumstances import Circumstances
from pgdyno.spec.change import Change, Debt
from pgdyno.spec.durability import AssessedClass, severity

Need = Literal[
    "reload", "restart", "client", "table", "index", "rewrite", "layout", "machine", "sql"
]
"""An action needed to apply a change: table sets an option of a table, index creates indexes,
rewrite rewrites whole tables, layout moves files or adds a server, machine sets a parameter of its
kernel, sql runs statements of the user's."""


class Case(Struct, frozen=True):
    """A change, and the server before and after it."""

    change: Change
    before: Circumstances
    after: Circumstances

    def becomes(self, holds: Callable[[Circumstances], bool]) -> bool:
        """Return whether ``holds`` is true after the change and false before."""
        return holds(self.after) and not holds(self.before)

    def shrinks(self, name: str, default_bytes: int) -> bool:
        """Return whether a size setting becomes smaller."""
        sizes = [side.settings.size_bytes(name) for side in (self.before, self.after)]
        before, after = (default_bytes if size is None else size for size in sizes)
        return after < before


class Risk(Struct, frozen=True):
    """The most that may be lost."""

    durability_class: AssessedClass
    bound: str = ""
    """'' if nothing is lost."""


def _always(_case: Case) -> bool:
    return True


def _at_once(_case: Case) -> float:
    return 0.0


class Remedy(Struct, frozen=True):
    """An entry of the catalogue. It changes what ``settings``, ``keys``, ``table_options``,
    ``indexes``, ``sql``, ``pools`` and ``clients`` say."""

    id: str
    summary: str
    """Its effect in a short phrase, for lists."""
    kind: Need
    durability_class: AssessedClass
    price: str
    """Its cost even if nothing can be lost."""
    bound: str = ""
    """The most that may be lost, according to PostgreSQL's documentation; '' if nothing is."""
    settings: tuple[str, ...] = ()
    """The settings that it may change; it is named after the first one."""
    keys: tuple[str, ...] = ()
    """Dotted keys of the spec that it may change; ``TABLE.*`` stands for all of a table."""
    table_options: tuple[str, ...] = ()
    """Storage parameters that it may change."""
    indexes: bool = False
    """True if it creates indexes."""
    sql: bool = False
    """True if it runs SQL of the user's."""
    pools: bool = False
    """True if it changes sizes of client pools."""
    clients: bool = False
    """True if it changes the number of clients."""
    when: Callable[[Case], bool] = _always
    """Returns whether a change of these is this remedy: fsync = on is not "fsync-off"."""
    risk: Callable[[Case], Risk] | None = None
    """Returns the possible losses of a change, if they depend on the change."""
    faults: tuple[str, ...] = ()
    """The drills that show its price; if empty, the safe faults."""
    manual_lines: tuple[str, ...] = ()
    """Instructions for what no statement can do, as SQL comments."""
    checkpoint_bound: bool = False
    """True if its effect or its price appears only over whole checkpoint cycles."""
    cycles: int = 0
    """Checkpoint cycles that a slice must span, if known, to show the effect."""
    postpones: tuple[Debt, ...] = ()
    """Work that the change moves beyond the end of a slice."""
    effect_after: Callable[[Case], float] = _at_once
    """Returns the length in seconds of the shortest slice that shows the effect."""
    acts_on_existing_rows: bool = True
    """True if it has an effect on existing rows before they are rewritten."""
    guards: bool = False
    """True if it prevents a failure of the server and need not gain; a trial measures its cost."""

    def touches(self, change: Change) -> bool:
        """Return whether ``change`` includes anything that the remedy changes."""
        of_load = (self.pools and change.pool_max) or (self.clients and change.clients)
        of_tables = (self.indexes and change.indexes) or (self.sql and change.sql)
        return bool(self.names_in(change)) or bool(of_load or of_tables)

    def names_in(self, change: Change) -> list[str]:
        """Return the settings, keys and table options of ``change`` that belong to the remedy."""
        known = {*self.settings, *self.keys, *self.table_options}
        tables = tuple(key.removesuffix("*") for key in self.keys if key.endswith(".*"))
        return [
            name
            for name in changed_names(change)
            if name.lower() in known or (tables and name.startswith(tables))
        ]

    def included_in(self, case: Case) -> bool:
        """Return whether the change includes this remedy, possibly among others."""
        return self.touches(case.change) and self.when(case)

    def risk_in(self, case: Case) -> Risk:
        """Return the loss that the change may cause because of this remedy."""
        return self.risk(case) if self.risk else Risk(self.durability_class, self.bound)


def changed_names(change: Change) -> Iterable[str]:
    """Yield the settings, keys of the spec and table options of ``change``, as written."""
    yield from change.settings
    yield from change.spec
    for options in change.table_options.values():
        yield from options


def risk_of(remedy_id: str) -> int:
    """Return a number that is larger for a remedy that may lose more of the data."""
    return severity(catalogue()[remedy_id].durability_class)


@cache
def catalogue() -> dict[str, Remedy]:
    """Return every remedy by id, ordered by durability class, then id."""
    # Not imported: the package imports this module.
    package = sys.modules[__name__.rpartition(".")[0]]
    found = by_name(held_by(package, Remedy), "remedies", lambda each: each.id)
    ordered = sorted(found.items(), key=lambda each: (severity(each[1].durability_class), each[0]))
    return dict(ordered)
