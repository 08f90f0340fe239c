"""Statements that could be left out."""

from __future__ import annotations

from pgdyno.facts.needless_statements import NeedlessStatement, schema_statements
from pgdyno.facts.needless_statements import needless_statements as without_rows
from pgdyno.facts.needless_statements import repeated_statements as repeated_by
from pgdyno.facts.setting_costs import STATEMENT_CPU_S_MIN
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, figure, listed, percent
from pgdyno.rules._cpu_uses import cpu_parts, response_share
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
    return _judged(
        s,
        without_rows(s),
        "statements that neither read nor change rows",
        "leave them out: savepoints where an error ends the transaction anyway (autosave of"
        " drivers), checks of a connection before each use, SET and DISCARD where sessions may keep"
        " their state (server_reset_query of poolers)",
    )


@rule(
    "schema-changes",
    of_clients=True,
    false_positives="a load whose purpose is to make tables, such as the tests of a migration",
)
def schema_changes(s: Situation) -> Found | Cleared:
    """Changes of the schema in transactions of the load: temporary tables that are made and dropped
    again, TRUNCATE, partitions.

    Each writes and removes rows of the catalogs, makes and removes files, and lets all sessions
    forget what they know of the table; DROP and TRUNCATE search all of shared_buffers for its
    pages.

    Trigger: as the clients see them, these statements take at least ``NEEDLESS_SHARE`` of the
    response time, with the COMMIT of a script that writes nothing else, which drops tables too. No
    gain is promised beyond their time. Threshold: that of a limit.
    """
    return _judged(
        s,
        schema_statements(s),
        "statements that change the schema",
        "do without the table: a WITH query, an array, or a table that stays, with a column that"
        " tells the transactions apart; delete rows in place of TRUNCATE where they are few",
    )


def _judged(
    s: Situation, found: list[NeedlessStatement], title: str, advice: str
) -> Found | Cleared:
    """Judge by the time that statements take, as the clients see them."""
    taken_ms, begun_ms = sum(each.ms for each in found), s.budget.response_ms * s.budget.begun
    share = min(1.0, taken_ms / begun_ms) if begun_ms > 0 else 0.0
    bar = f"at least {percent(NEEDLESS_SHARE)}"
    evidence = [
        s.evidence(f"{title} / response time", share, "share", bar),
        *(s.evidence(shortened(each.total.statement), each.ms, "ms") for each in found[:SHOWN]),
    ]
    if share < NEEDLESS_SHARE:
        return Cleared(f"{title} take {percent(share)} of the time", evidence)
    texts = dict.fromkeys(shortened(each.total.statement) for each in found)
    return Found(
        sentence=(
            f"{title} take {figure(taken_ms)} of the {figure(begun_ms)} ms of a transaction:"
            f" {listed([*texts], SHOWN)}"
        ),
        share=share * s.budget.begun,
        removable_share=1.0,
        confidence=0.8,
        evidence=evidence,
        advice=advice,
    )


@rule(
    "repeated-statements",
    of_clients=True,
    false_positives="a transaction whose next value depends on the row of the statement before",
)
def repeated_statements(s: Situation) -> Found | Cleared:
    """The same statement many times in a transaction, for one row after another: a query for each
    row of a list, an INSERT for each row of an order.

    Trigger: by the least that a statement takes of the server's CPU, a prepared one that reads a
    row by its key (``STATEMENT_CPU_S_MIN``), the executions beyond the first of each transaction
    take at least ``NEEDLESS_SHARE`` of the response time. Statements are the same if they differ in
    values alone. No gain is promised beyond that: what one statement for all of the rows takes
    depends on its plan. Distinct from round trips, whose time is that of the way (``round_trips``).
    """
    found = repeated_by(s)
    share = response_share(s, "repeated-statements")
    evidence = [
        s.evidence(
            "least CPU time of repeated statements / response time",
            share,
            "share",
            f"at least {percent(NEEDLESS_SHARE)}",
        ),
        *(
            s.evidence(shortened(each.text), each.per_transaction, "times")
            for each in found[:SHOWN]
        ),
    ]
    if share < NEEDLESS_SHARE:
        return Cleared("no transaction repeats short statements", evidence)
    worst = found[0]
    return Found(
        sentence=(
            f"a transaction executes the same statement"
            f" {counted(round(worst.per_transaction, 1), 'time', 'times')}:"
            f" {shortened(worst.text)}; beyond the first, each takes at least"
            f" {figure(STATEMENT_CPU_S_MIN * 1000)} ms of the server's CPU for itself"
        ),
        parts=cpu_parts(s),
        share=share * s.budget.begun,
        removable_share=1.0,
        confidence=0.8,
        evidence=evidence,
        advice="read or write the rows by one statement: a join, = ANY of an array, an INSERT of"
        " many rows or of unnest(); in an object-relational mapper, load the rows that belong"
        " together at once",
    )
