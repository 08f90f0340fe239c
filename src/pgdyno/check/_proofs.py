"""The commands that prove what a finding proposes: ``pgdyno compare`` with the proposed change."""

from __future__ import annotations

from pgdyno.dimension import title_of
from pgdyno.escaping import shell_line
from pgdyno.facts.sight import NOT_PREDICTED
from pgdyno.record.finding import Finding, Proposal, ProvingCommand
from pgdyno.remedy import Circumstances, assess, catalogue
from pgdyno.remedy.lines import Options, compare_words
from pgdyno.spec import Change
from pgdyno.spec.durability import severity

SCRIPT = "SCRIPT.sql"
"""Stands for the statements of the application, which pgdyno does not know."""
SNAPSHOT = "SNAPSHOT"
"""Stands for a snapshot with the server's tables, for a change that needs a restart."""


def proofs_of(
    finding: Finding, uri: str, before: Circumstances, options: Options, *, predicts: bool
) -> tuple[ProvingCommand, ...]:
    """Return a command for each proposal about the server, those that lose nothing first; with its
    predicted gain, if the model ``predicts``: it needs the server's cores. ``options`` are the
    storage parameters of tables at present.

    Left out are those about the clients, whose number is not pgdyno's to change, and those that may
    lose everything.
    """
    proofs = [
        _proof(each, uri, before, options, predicts)
        for each in finding.proposals
        if _is_of_server(each.change) and catalogue()[each.remedy_id].durability_class != "D3"
    ]
    return tuple(sorted(proofs, key=lambda each: severity(each.durability_class)))


def _is_of_server(change: Change) -> bool:
    return not (change.clients or change.pool_max or change.rate or change.spec)


def _proof(
    proposal: Proposal, uri: str, before: Circumstances, options: Options, predicts: bool
) -> ProvingCommand:
    assessed = assess(proposal.change, before)
    guards = catalogue()[proposal.remedy_id].guards or proposal.guards
    predicts = predicts and not guards and proposal.predicted_ratio != NOT_PREDICTED
    # A server that pgdyno did not start is not restarted.
    elsewhere = bool(set(assessed.needs) - {"reload", "client", "table", "rewrite"})
    server = ["--snapshot", SNAPSHOT] if elsewhere else [uri]
    words = ["pgdyno", "compare", *server, "-f", SCRIPT]
    words += compare_words(proposal.change, existing=not elsewhere, before=options)
    return ProvingCommand(
        title=title_of(proposal.change),
        command=shell_line(words),
        predicted_ratio=proposal.predicted_ratio if predicts else None,
        guards=guards,
        durability_class=assessed.durability_class,
        why=proposal.why,
    )
