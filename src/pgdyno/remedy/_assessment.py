"""Assessment of a change: durability class, bound, price and drills, for all commands and reports.

``assess`` combines the remedies of the catalogue that a change consists of. Only losses in addition
to those possible before the change count: a change that raises durability loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from msgspec import Struct

from pgdyno.remedy import lines
from pgdyno.remedy._remedy import Case, Need, Remedy, Risk, catalogue, changed_names
from pgdyno.remedy.circumstances import Circumstances
from pgdyno.spec.change import Change, Debt
from pgdyno.spec.durability import AssessedClass, severity

SAFE_FAULTS = ("kill", "power")
"""Drills that a change is checked with if nothing may be lost."""

_OF_THE_LOAD = ("load.", "workload.", "clients.")


class Assessment(Struct, frozen=True):
    """Properties of a change, relative to the server before it."""

    change: Change
    remedies: tuple[Remedy, ...]
    """The remedies that the change consists of; the one that may lose most comes first."""
    durability_class: AssessedClass
    loss: str
    """The most that may be lost, according to PostgreSQL's documentation; '' if nothing is."""
    faults: tuple[str, ...]
    """The drills that show its price."""
    checkpoint_bound: bool
    """True if its effect or its price appears only over whole checkpoint cycles."""
    cycles: int
    """Checkpoint cycles that a slice must span to show the effect."""
    effect_after_s: float
    """Length of the shortest slice that shows the effect; 0 if any does."""
    postpones: tuple[Debt, ...]
    """Work that it moves beyond the end of a slice, which each slice of a trial does at its end."""
    acts_on_existing_rows: bool
    needs: tuple[Need, ...]
    """Actions needed to apply it, as far as known."""
    price: str
    """Its cost even if nothing is lost; empty if the catalogue has none."""
    uncatalogued: tuple[str, ...]
    """Changed settings, keys and table options that are in no remedy."""
    at_start: tuple[str, ...]
    """Its settings that are known to be read only at server start."""

    @property
    def bound(self) -> str:
        """The most that may be lost, in words also if nothing is."""
        return self.loss or "nothing is lost"

    @property
    def remedy(self) -> Remedy | None:
        """The remedy that may lose most; ``None`` if the change is not in the catalogue."""
        return self.remedies[0] if self.remedies else None

    def lines_to_apply(self) -> list[str]:
        """Return the lines to type to apply the change permanently."""
        manual = {line: None for remedy in self.remedies for line in remedy.manual_lines}
        done = {key for r in self.remedies if r.manual_lines for key in r.names_in(self.change)}
        rest = [lines.key_line(k, v) for k, v in self.change.spec.items() if k not in done]
        return lines.lines_to_apply(
            self.change, at_start=self.at_start, unknown=self._unknown, manual=[*manual, *rest]
        )

    def lines_to_undo(self, before: Change | None = None) -> list[str]:
        """Return the lines to type to undo it; ``before`` has the known previous values."""
        return lines.lines_to_undo(
            self.change, before or Change(), at_start=self.at_start, unknown=self._unknown
        )

    @property
    def _unknown(self) -> bool:
        """True if it is not known for one of its settings whether a reload applies it."""
        return any(name in self.uncatalogued for name in self.change.settings)

    def to_json(self) -> dict[str, object]:
        """Return it as the results of ``compare`` have it."""
        return {
            "remedies": [remedy.id for remedy in self.remedies],
            "durability_class": self.durability_class,
            "bound": self.bound,
            "drills": list(self.faults),
            "checkpoint_bound": self.checkpoint_bound,
            "acts_on_existing_rows": self.acts_on_existing_rows,
            "needs": list(self.needs),
            "price": self.price,
            "not_in_catalogue": list(self.uncatalogued),
        }


def assess(change: Change, before: Circumstances) -> Assessment:
    """Return the catalogue's assessment of ``change`` on a server described by ``before``.

    Raises UsageError for an invalid value of a key of the spec.
    """
    case = Case(change, before, before.under(change))
    matching = [remedy for remedy in catalogue().values() if remedy.touches(change)]
    found = [(remedy.risk_in(case), remedy) for remedy in matching if remedy.included_in(case)]
    unknown = _uncatalogued(change, matching)
    risks = [risk for risk, _ in found] + _uncatalogued_risks(change, unknown)
    found.sort(key=lambda each: -severity(each[0].durability_class))
    classes: list[AssessedClass] = ["D0", *(risk.durability_class for risk in risks)]
    at_start = {name for r in matching if r.kind == "restart" for name in r.names_in(change)}
    return Assessment(
        change=change,
        remedies=tuple(remedy for _, remedy in found),
        durability_class=max(classes, key=severity),
        loss=_loss(risks),
        faults=_faults(found),
        checkpoint_bound=any(remedy.checkpoint_bound for remedy in matching),
        cycles=max((remedy.cycles for remedy in matching), default=0),
        effect_after_s=max((remedy.effect_after(case) for remedy in matching), default=0.0),
        postpones=_postponed(matching),
        acts_on_existing_rows=all(remedy.acts_on_existing_rows for remedy in matching),
        needs=_needs(change, matching),
        price="; ".join(dict.fromkeys(remedy.price for _, remedy in found)),
        uncatalogued=unknown,
        at_start=tuple(name for name in change.settings if name in at_start),
    )


def _uncatalogued(change: Change, matching: Sequence[Remedy]) -> tuple[str, ...]:
    """Return changed names that are in no remedy, except keys of the load and its clients: they
    change the load, not the durability of its data."""
    known = {name for remedy in matching for name in remedy.names_in(change)}
    load = {key for key in change.spec if key.startswith(_OF_THE_LOAD)}
    return tuple(name for name in changed_names(change) if name not in known | load)


def _uncatalogued_risks(change: Change, names: Sequence[str]) -> list[Risk]:
    """Return the risks of names that are in no remedy: not known for settings of extensions; the
    catalogue has all settings of PostgreSQL that are documented to reduce durability."""
    foreign = [name for name in names if "." in name and name in change.settings]
    own = [name for name in names if name not in foreign]
    risks = []
    if foreign:
        bound = f"not known: {', '.join(foreign)} {_is(foreign)} not part of PostgreSQL itself"
        risks.append(Risk("unknown", bound))
    if own:
        bound = (
            f"nothing is lost, as far as known: {', '.join(own)} {_is(own)} not in the catalogue"
        )
        risks.append(Risk("D0", bound))
    return risks


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _loss(risks: Sequence[Risk]) -> str:
    """Return all bounds of risks above D0, or if there are none, those of D0."""
    lossy = sorted(
        (risk for risk in risks if risk.durability_class != "D0"),
        key=lambda risk: -severity(risk.durability_class),
    )
    return "; ".join(dict.fromkeys(risk.bound for risk in lossy or risks if risk.bound))


def _faults(found: Sequence[tuple[Risk, Remedy]]) -> tuple[str, ...]:
    lossy = [remedy for risk, remedy in reversed(found) if risk.durability_class != "D0"]
    remedies = lossy or [remedy for _, remedy in found]
    faults = [fault for remedy in remedies for fault in remedy.faults]
    return tuple(dict.fromkeys(faults)) or SAFE_FAULTS


def _postponed(matching: Sequence[Remedy]) -> tuple[Debt, ...]:
    debts = {debt for remedy in matching for debt in remedy.postpones}
    if any(remedy.checkpoint_bound for remedy in matching):
        debts.add("checkpoint")
    return tuple(debt for debt in get_args(Debt) if debt in debts)


def _needs_own_step(remedy: Remedy, change: Change) -> bool:
    """Return whether the remedy's own need applies: settings that a key of the spec implies are
    applied together with the key."""
    if remedy.kind in ("layout", "index", "rewrite", "client", "machine", "sql"):
        return True
    return (
        remedy.pools
        or remedy.clients
        or any(name not in change.spec for name in remedy.names_in(change))
    )


def _needs(change: Change, matching: Sequence[Remedy]) -> tuple[Need, ...]:
    needs: list[Need] = [remedy.kind for remedy in matching if _needs_own_step(remedy, change)]
    of_clients = [key for key in change.spec if key.startswith(("clients.", "load."))]
    if of_clients or change.clients or change.rate:
        needs.append("client")
    return tuple(dict.fromkeys(needs))
