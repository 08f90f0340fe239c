"""What a remedy is: a named kind of change that knows for itself what it costs.

A remedy says which changes it is in (``touches``, ``when``), what they may lose at most (``risk``,
or the same of all of them), which drills show it, and what they need. Classes of durability are
those of ``spec.durability``. What a change gains is predicted by ``diagnose`` and measured by a
trial. Whether a value lies in the range of a server is for the server room to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from pgdyno.remedy.circumstances import Circumstances
from pgdyno.spec.change import Change
from pgdyno.spec.durability import AssessedClass

Need = Literal["reload", "restart", "client", "table", "rewrite", "layout"]
"""What has to be done for a change to be in force: table is an option of one, rewrite writes all of
a table anew, layout moves files or adds a server."""


@dataclass(frozen=True)
class Case:
    """A change, and the server before and after it."""

    change: Change
    before: Circumstances
    after: Circumstances

    def newly(self, holds: Callable[[Circumstances], bool]) -> bool:
        """Whether something holds after the change that did not hold before."""
        return holds(self.after) and not holds(self.before)

    def shrinks(self, name: str, default_bytes: int) -> bool:
        """Whether a setting of size becomes smaller."""
        sizes = [side.settings.size_bytes(name) for side in (self.before, self.after)]
        before, after = (default_bytes if size is None else size for size in sizes)
        return after < before


@dataclass(frozen=True)
class Risk:
    """What may be lost at most."""

    durability_class: AssessedClass
    bound: str


def _always(_case: Case) -> bool:
    return True


@dataclass(frozen=True)
class Remedy:
    """One entry of the price list. What it changes stands in ``settings``, ``keys``,
    ``table_options`` and ``pools``."""

    id: str
    summary: str
    """What it does, in half a sentence, for lists."""
    kind: Need
    durability_class: AssessedClass
    bound: str
    """What may be lost at most, as PostgreSQL's documentation has it."""
    price: str
    """What it costs even where nothing can be lost."""
    settings: tuple[str, ...] = ()
    """The settings that it may change, the first being the one it is named after."""
    keys: tuple[str, ...] = ()
    """Dotted keys of the spec that it may change."""
    table_options: tuple[str, ...] = ()
    """Storage parameters that it may change."""
    pools: bool = False
    """Whether it changes sizes of client pools."""
    when: Callable[[Case], bool] = _always
    """Whether it is what a change of these amounts to: fsync = on is not "fsync-off"."""
    risk: Callable[[Case], Risk] | None = None
    """What this change may lose, where that is not always the same."""
    faults: tuple[str, ...] = ()
    """The drills in which its price shows; none: those that what loses nothing is held to."""
    steps: tuple[str, ...] = ()
    """What to do by hand besides, as comments in SQL; for what no statement can do."""
    checkpoint_bound: bool = False
    """The effect shows, or its price falls due, only over whole checkpoint cycles."""
    acts_on_existing_rows: bool = True
    """Whether it does anything for rows that are there before they are written again."""
    guards: bool = False
    """It keeps the server from failing and need gain nothing: a trial is to show what it costs."""

    def touches(self, change: Change) -> bool:
        """Whether ``change`` has to do with it at all."""
        return bool(self.names_in(change)) or (self.pools and bool(change.pool_max))

    def names_in(self, change: Change) -> list[str]:
        """The settings, keys and table options of ``change`` that it knows."""
        known = {*self.settings, *self.keys, *self.table_options}
        return [name for name in changed_names(change) if name.lower() in known]

    def in_case(self, case: Case) -> bool:
        """Whether this is what the change amounts to, perhaps beside others."""
        return self.touches(case.change) and self.when(case)

    def risk_in(self, case: Case) -> Risk:
        """What the change may lose by it."""
        return self.risk(case) if self.risk else Risk(self.durability_class, self.bound)


def changed_names(change: Change) -> Iterable[str]:
    """Settings, keys of the spec and table options of ``change``, as they are written."""
    yield from change.settings
    yield from change.spec
    for options in change.table_options.values():
        yield from options
