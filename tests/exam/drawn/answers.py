"""Reading pgdyno's answer: which findings name a cause, what is denied, and what is promised.

Only what ``pgdyno run --format json`` has as members is read: IDs, statuses, evidence, changes,
predictions, and commands; no sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from exam.drawn.model import Fault, Right, ServerFacts
from pgdyno.spec.index_text import each_index, index_text

PROMISE_MIN = 1.03
"""Smallest predicted ratio that is a promise."""
Finding = Mapping[str, Any]
Naming = Literal["undo", "named", ""]


class Promise(Struct, frozen=True):
    """A predicted gain of throughput."""

    finding: str
    change: Mapping[str, Any]
    ratio: float
    low: float
    high: float


def found(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that were made, in their order."""
    return [each for each in findings if each["status"] not in ("cleared", "skipped")]


def names(right: Right, finding: Finding) -> Naming:
    """Return how a finding names a cause: with what undoes it, without, or not at all."""
    if any(_undoes(right, each["change"]) for each in finding["remedies"]):
        return "undo"
    if any(_has_word(each, (*right.settings, *right.commands)) for each in finding["commands"]):
        return "undo"
    if finding["id"] in right.findings or _shows(finding, (*right.settings, *right.objects)):
        return "named" if right.can_be_undone else "undo"
    return ""


def _undoes(right: Right, change: Mapping[str, Any]) -> bool:
    """Return whether a change undoes the cause."""
    if any(name in change.get("settings", {}) for name in right.settings):
        return True
    if right.index and _begins_with(right.index, change.get("indexes", {})):
        return True
    statements = [text for texts in change.get("sql", {}).values() for text in texts]
    if any(_has_word(text, right.commands) for text in statements):
        return True
    return any(key in change or key in change.get("spec", {}) for key in right.keys)


def _begins_with(index: tuple[str, str], indexes: Mapping[str, str]) -> bool:
    """Return whether one of the indexes, table → columns, is of the table and begins with the
    column."""
    table, column = index
    return any(
        of.rpartition(".")[2] == table and columns.split(",")[0].strip(' "') == column
        for of, columns in indexes.items()
    )


def _has_word(text: str, words: Sequence[str]) -> bool:
    return any(re.search(rf"(?<![\w$]){re.escape(word)}", text, re.IGNORECASE) for word in words)


def _shows(finding: Finding, words: Sequence[str]) -> bool:
    """Return whether the evidence of a finding has one of these names of the server's."""
    texts = [f"{each['name']} {each['value']}" for each in finding["evidence"]]
    return any(re.search(rf"\b{re.escape(word)}\b", text) for text in texts for word in words)


def denials(fault: Fault, findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the IDs of rules that cleared a cause, unless a finding names it.

    These are the first of its findings, as the others may be right to find nothing, those that it
    is ``denied_by``, and rules whose evidence shows it.
    """
    if any(names(fault.right, each) for each in found(findings)):
        return
    ids = {*fault.right.findings[:1], *fault.right.denied_by}
    for each in findings:
        if each["status"] == "cleared" and (
            each["id"] in ids or _shows(each, (*fault.right.settings, *fault.right.objects))
        ):
            yield each["id"]


def promises(findings: Sequence[Finding]) -> Iterator[Promise]:
    """Yield the gains of throughput that are predicted, in the order of the findings."""
    for finding in found(findings):
        for remedy in finding["remedies"]:
            ratio = remedy["predicted_ratio"]
            if remedy.get("guards") or ratio < PROMISE_MIN:
                continue
            low, high = remedy["predicted_interval"] or (ratio, ratio)
            yield Promise(finding["id"], remedy["change"], ratio, low, high)


def undoes_exactly(fault: Fault, change: Mapping[str, Any], server: ServerFacts) -> bool:
    """Return whether a change is the undoing of a cause that the harness measures, and no more."""
    right = fault.right
    settings = change.get("settings", {})
    if set(change) == {"settings"} and set(settings) == set(fault.settings):
        known = server.settings
        return all(
            _same(value, known[name].boot) for name, value in settings.items() if name in known
        )
    indexes = change.get("indexes", {})
    if set(change) == {"indexes"} and right.index:
        return len(indexes) == 1 and _begins_with(right.index, indexes)
    return False


def _same(value: str, boot: str) -> bool:
    """Return whether two values of a setting are the same, where that is certain."""
    if value == boot:
        return True
    try:
        return float(value) == float(boot)
    except ValueError:
        return False


def applicable(promise: Promise, server: ServerFacts, clients: int) -> Fault | None:
    """Return a promised change as something that the harness can do; ``None`` if it cannot."""
    change = promise.change
    settings = change.get("settings", {})
    if not set(change) <= {"settings", "indexes", "pool_max", "clients", "spec"}:
        return None
    spec = change.get("spec", {})
    if not set(spec) <= {"load.protocol"} or not set(settings) <= set(server.settings):
        return None
    pools, counts = change.get("pool_max", {}), change.get("clients", {})
    restart = any(server.settings[name].context == "postmaster" for name in settings)
    indexes = [*each_index(change.get("indexes", {}))]
    extensions = (each for _, text in indexes for each in index_text(text).extension_statements)
    return Fault(
        entry="promise",
        kind="promise",
        right=Right(),
        plant=tuple(dict.fromkeys(extensions))
        + tuple(
            f"create index promised_{n} on {table} {index_text(text).sql}"
            for n, (table, text) in enumerate(indexes)
        )
        + tuple(f"vacuum analyze {table}" for table, _ in indexes),
        undo=tuple(f"drop index promised_{n}" for n in range(len(indexes))),
        settings=settings,
        restart=restart,
        pool=(next(iter(pools.values())) or clients) if pools else None,
        clients=next(iter(counts.values())) if counts else None,
        protocol=spec.get("load.protocol"),
    )
