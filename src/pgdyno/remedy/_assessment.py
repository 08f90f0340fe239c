"""What a change is known to be: the one answer that every command and report asks for.

``assess`` puts together what the remedies of the catalogue say of a change. Losses count against
what is in force already: what the server has lost without the change is not the change's price, and
a change that raises durability loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.remedy import _lines
from pgdyno.remedy._remedy import Case, Need, Remedy, Risk, changed_names
from pgdyno.remedy.catalogue import catalogue
from pgdyno.remedy.circumstances import Circumstances
from pgdyno.spec.change import Change
from pgdyno.spec.durability import AssessedClass, severity

SAFE_FAULTS = ("kill", "power")
"""What a change that loses nothing is held to."""
NOTHING_LOST = "nothing is lost"

_OF_THE_SERVER = ("disk.", "standby.", "server.")


@dataclass(frozen=True)
class Assessment:
    """What a change is, against what was in force before it."""

    change: Change
    remedies: tuple[Remedy, ...]
    """What it amounts to; what may lose most comes first."""
    durability_class: AssessedClass
    bound: str
    """What may be lost at most, as PostgreSQL's documentation has it."""
    faults: tuple[str, ...]
    """The drills in which its price shows."""
    checkpoint_bound: bool
    """The effect shows, or its price falls due, only over whole checkpoint cycles."""
    acts_on_existing_rows: bool
    needs: tuple[Need, ...]
    """What has to be done for it to be in force, as far as known."""
    price: str
    """What it costs even where nothing is lost; empty where the catalogue has nothing."""
    uncatalogued: tuple[str, ...]
    """Of what it changes, what no remedy knows."""
    at_start: tuple[str, ...]
    """Of its settings, those that are known to be read at the server's start only."""

    @property
    def remedy(self) -> Remedy | None:
        """What loses most of what it amounts to; ``None``: it is not in the catalogue."""
        return self.remedies[0] if self.remedies else None

    @property
    def remedy_above_d0(self) -> Remedy | None:
        """The remedy that may lose something, if one may."""
        return None if self.durability_class == "D0" else self.remedy

    def lines_to_apply(self) -> list[str]:
        """What to type to have the change for good."""
        steps = {step: None for remedy in self.remedies for step in remedy.steps}
        done = {key for r in self.remedies if r.steps for key in r.names_in(self.change)}
        rest = [f"-- spec: {k} = {v}" for k, v in self.change.spec.items() if k not in done]
        return _lines.lines_to_apply(
            self.change, at_start=self.at_start, unknown=self._unknown, steps=[*steps, *rest]
        )

    def lines_to_undo(self, before: Change | None = None) -> list[str]:
        """What to type to be rid of it; ``before`` is what was in force, where that is known."""
        return _lines.lines_to_undo(
            self.change, before or Change(), at_start=self.at_start, unknown=self._unknown
        )

    @property
    def _unknown(self) -> bool:
        """Whether it is not known of one of its settings if a reload puts it in force."""
        return any(name in self.uncatalogued for name in self.change.settings)

    def to_json(self) -> dict[str, Any]:
        """As the results of ``compare`` have it."""
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
    """What ``change`` is on a server that is as ``before`` says.

    Raises UsageError for a value that a key of the spec cannot have.
    """
    case = Case(change, before, before.under(change))
    knowing = [remedy for remedy in catalogue().values() if remedy.touches(change)]
    found = [(remedy.risk_in(case), remedy) for remedy in knowing if remedy.in_case(case)]
    unknown = _uncatalogued(change, knowing)
    risks = [risk for risk, _ in found] + _risks_of_the_unknown(change, unknown)
    found.sort(key=lambda each: -severity(each[0].durability_class))
    classes: list[AssessedClass] = ["D0", *(risk.durability_class for risk in risks)]
    at_start = {name for r in knowing if r.kind == "restart" for name in r.names_in(change)}
    return Assessment(
        change=change,
        remedies=tuple(remedy for _, remedy in found),
        durability_class=max(classes, key=severity),
        bound=_bound(risks),
        faults=_faults(found),
        checkpoint_bound=any(remedy.checkpoint_bound for remedy in knowing),
        acts_on_existing_rows=all(remedy.acts_on_existing_rows for remedy in knowing),
        needs=_needs(change, knowing),
        price="; ".join(dict.fromkeys(remedy.price for _, remedy in found)),
        uncatalogued=unknown,
        at_start=tuple(name for name in change.settings if name in at_start),
    )


def _uncatalogued(change: Change, knowing: Sequence[Remedy]) -> tuple[str, ...]:
    """What is the server's, or a table's, and known to no remedy. Keys of the load and its clients
    change what is asked of a server, and nothing that it keeps."""
    known = {name for remedy in knowing for name in remedy.names_in(change)}
    load = {key for key in change.spec if not key.startswith(_OF_THE_SERVER)}
    return tuple(name for name in changed_names(change) if name not in known | load)


def _risks_of_the_unknown(change: Change, names: Sequence[str]) -> list[Risk]:
    """A setting of an extension may do anything; those of PostgreSQL itself whose documentation
    says that they lower durability are all in the catalogue."""
    foreign = [name for name in names if "." in name and name in change.settings]
    own = [name for name in names if name not in foreign]
    risks = []
    if foreign:
        bound = f"not known: {', '.join(foreign)} {_is(foreign)} no setting of PostgreSQL itself"
        risks.append(Risk("unknown", bound))
    if own:
        bound = f"{NOTHING_LOST}, as far as known: {', '.join(own)} {_is(own)} not in the catalogue"
        risks.append(Risk("D0", bound))
    return risks


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _bound(risks: Sequence[Risk]) -> str:
    """All that may be lost; of what loses nothing, why, where there is more to say."""
    lossy = sorted(
        (risk for risk in risks if risk.durability_class != "D0"),
        key=lambda risk: -severity(risk.durability_class),
    )
    said = dict.fromkeys(risk.bound for risk in lossy or risks)
    if len(said) > 1:
        said.pop(NOTHING_LOST, None)
    return "; ".join(said) or NOTHING_LOST


def _faults(found: Sequence[tuple[Risk, Remedy]]) -> tuple[str, ...]:
    lossy = [remedy for risk, remedy in reversed(found) if risk.durability_class != "D0"]
    remedies = lossy or [remedy for _, remedy in found]
    faults = [fault for remedy in remedies for fault in remedy.faults]
    return tuple(dict.fromkeys(faults)) or SAFE_FAULTS


def _is_done_by(remedy: Remedy, change: Change) -> bool:
    """Whether what the remedy needs is needed: settings that a key of the spec brings along are put
    in force with it."""
    if remedy.kind in ("layout", "rewrite"):
        return True
    return remedy.pools or any(name not in change.spec for name in remedy.names_in(change))


def _needs(change: Change, knowing: Sequence[Remedy]) -> tuple[Need, ...]:
    needs: list[Need] = [remedy.kind for remedy in knowing if _is_done_by(remedy, change)]
    of_clients = [key for key in change.spec if key.startswith(("clients.", "load."))]
    if of_clients or change.clients or change.rate:
        needs.append("client")
    return tuple(dict.fromkeys(needs))
