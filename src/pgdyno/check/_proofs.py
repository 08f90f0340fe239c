"""The commands that prove what a finding proposes: ``pgdyno compare`` with the proposed change."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.check._sight import NOT_PREDICTED
from pgdyno.diagnose.finding import Finding, Proposal
from pgdyno.dimension import title_of
from pgdyno.remedy import Circumstances, assess, catalogue
from pgdyno.results.check import Proof
from pgdyno.spec import Change
from pgdyno.spec.durability import severity
from pgdyno.stats.words import rounded
from pgdyno.visible import shell_line

SCRIPT = "SCRIPT.sql"
"""Stands for the statements of the application, which pgdyno does not know."""


def proofs_of(
    finding: Finding, uri: str, before: Circumstances, *, predicts: bool
) -> tuple[Proof, ...]:
    """Return a command for each proposal about the server, those that lose nothing first; with its
    predicted gain, if the model ``predicts``: it needs the server's cores.

    Left out are those about the clients, whose number is not pgdyno's to change, and those that may
    lose everything.
    """
    proofs = [
        _proof(each, uri, before, predicts)
        for each in finding.proposals
        if _is_of_server(each.change) and catalogue()[each.remedy_id].durability_class != "D3"
    ]
    return tuple(sorted(proofs, key=lambda each: severity(each.durability_class)))


def _is_of_server(change: Change) -> bool:
    return not (change.clients or change.pool_max or change.rate or change.spec)


def _proof(proposal: Proposal, uri: str, before: Circumstances, predicts: bool) -> Proof:
    assessed = assess(proposal.change, before)
    guards = catalogue()[proposal.remedy_id].guards or proposal.guards
    predicts = predicts and not guards and proposal.predicted_ratio != NOT_PREDICTED
    # A server that pgdyno did not start is neither restarted, nor are its tables altered.
    elsewhere = bool(set(assessed.needs) - {"reload", "client"})
    words = ["pgdyno", "compare", *([] if elsewhere else [uri]), "-f", SCRIPT]
    words += _options(proposal.change)
    if proposal.change.settings and not elsewhere:
        words.append("--apply")
    return Proof(
        title=title_of(proposal.change),
        command=shell_line(words),
        predicted_ratio=rounded(proposal.predicted_ratio) if predicts else None,
        guards=guards,
        durability_class=assessed.durability_class,
        why=proposal.why,
    )


def _options(change: Change) -> Iterator[str]:
    for name, value in change.settings.items():
        yield from ("--set", f"{name}={value}")
    for key, value in _keys(change):
        yield from ("--vary", f"{key}={value}")


def _keys(change: Change) -> Iterator[tuple[str, str]]:
    for table, columns in change.indexes.items():
        yield f"workload.indexes.{table}", columns
    for table, options in change.table_options.items():
        for name, value in options.items():
            yield f"workload.table_options.{table}.{name}", value
