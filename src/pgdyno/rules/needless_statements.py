"""Statements that could be left out."""

from __future__ import annotations

from pgdyno.facts.needless_statements import needless_statements as without_rows
from pgdyno.facts.situation import Situation
from pgdyno.numbers import figure, listed, percent
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.sql_text import shortened

NEEDLESS_SHARE = 0.1
SHOWN = 3


@rule(
    "needless-statements",
    of_clients=True,
    false_positives=(
        "savepoints to which the application does return, settings that each transaction needs"
    ),
)
def needless_statements(s: Situation) -> Found | Cleared:
    """Statements that neither read nor change rows: savepoints around each statement, checks of a
    connection before it is used, settings that are set again, DISCARD. BEGIN and COMMIT are not
    among them.

    Trigger: as the clients see them, they take at least ``NEEDLESS_SHARE`` of the response time.
    Queries are known by a plan that reads no table and calls no function. No gain is promised
    beyond their time. Threshold: that of a limit.
    """
    found = without_rows(s)
    taken_ms, begun_ms = sum(each.ms for each in found), s.budget.response_ms * s.budget.begun
    share = min(1.0, taken_ms / begun_ms) if begun_ms > 0 else 0.0
    bar = f"at least {percent(NEEDLESS_SHARE)}"
    evidence = [
        s.evidence("statements without rows / response time", share, "share", bar),
        *(s.evidence(shortened(each.total.statement), each.ms, "ms") for each in found[:SHOWN]),
    ]
    if share < NEEDLESS_SHARE:
        return Cleared(
            f"statements that neither read nor change rows take {percent(share)} of the time",
            evidence,
        )
    texts = dict.fromkeys(shortened(each.total.statement) for each in found)
    return Found(
        sentence=(
            f"statements that neither read nor change rows take {figure(taken_ms)} of the"
            f" {figure(begun_ms)} ms of a transaction: {listed([*texts], SHOWN)}"
        ),
        share=share * s.budget.begun,
        removable_share=1.0,
        confidence=0.8,
        evidence=evidence,
        advice="leave them out: savepoints where an error ends the transaction anyway (autosave of"
        " drivers), checks of a connection before each use, SET and DISCARD where sessions may keep"
        " their state (server_reset_query of poolers)",
    )
