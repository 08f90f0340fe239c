"""Threshold of autovacuum too high: a share of a large table's rows must be dead before it comes.

Trigger: the table with the most rows made dead is not due, and either transactions access ever more
pages while its dead rows grow (at least ``SHARE_MIN`` of the response time, see ``_bloat``, and
``DEAD_PART_MIN`` of its rows), or its threshold is at least ``DEAD_ROWS_MAX`` and at this rate it
is due in more than ``DUE_S``.

Thresholds: version 18 limits the threshold of every table to 100 million rows by default
(autovacuum_vacuum_max_threshold); one vacuum per table in about two hours is the aim of Senzing's
experiments. The default of 0.2 times the rows means that a table of a billion rows has 200 million
dead ones before anything is done.

Look-alikes: tables that are due and not vacuumed ("autovacuum-slow"), an old xmin ("xmin-pinned").
"""

from __future__ import annotations

from pgdyno.diagnose._bloat import DEAD_ROWS_MIN, bloat, bloat_evidence, cost_in_words
from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.autovacuum import Autovacuum, Upkeep
from pgdyno.diagnose.facts.holders import held_back
from pgdyno.numbers import duration, figure
from pgdyno.record.finding import Evidence, Proposal
from pgdyno.spec.change import Change
from pgdyno.spec.sql_text import relation

DEAD_ROWS_MAX = 100_000_000
DUE_S = 2 * 3600.0
SHARE_MIN = 0.1
DEAD_PART_MIN = 0.5
"""Fewer dead rows than this part of the rows do not make the pages grow as ``_bloat`` asks."""
LIFTABLE = 0.6
_PROPOSED_MIN = 1000


def examine(s: Situation) -> Found | Cleared:
    """Examine the table with the most rows made dead."""
    autovacuum = Autovacuum(s)
    table = max(autovacuum.tables, key=lambda each: (each.made_dead, each.due_in_s == 0.0))
    evidence = _evidence(s, table)
    if autovacuum.off is not None or not table.enabled:
        return Cleared("autovacuum is off", evidence)
    if table.made_dead < DEAD_ROWS_MIN:
        return Cleared("few rows become dead", evidence)
    due = _due_in_words(table)
    sentence = f"{table.relation} is vacuumed at {figure(table.due_rows)} dead rows, {due}"
    seen = bloat(s)
    evidence += bloat_evidence(s, seen)
    if table.due_in_s == 0.0 or held_back(s):
        return Cleared(sentence, evidence)
    far = table.due_in_s is None or table.due_in_s > DUE_S
    costs = seen.share >= SHARE_MIN and table.dead >= DEAD_PART_MIN * table.rows
    if not costs and not (far and table.due_rows >= DEAD_ROWS_MAX):
        return Cleared(sentence, evidence)
    return Found(
        sentence=f"{sentence}{cost_in_words(seen)}",
        parts=seen.parts,
        share=seen.share,
        liftable=LIFTABLE,
        confidence=0.6 if costs else 0.8,
        evidence=evidence,
        proposals=_proposals(table, seen.share),
        advice=_advice(table),
    )


def _due_in_words(table: Upkeep) -> str:
    if table.due_in_s is None:
        return "of which it has no more than before"
    if table.due_in_s == 0.0:
        return "which it has"
    return f"which it has in {duration(table.due_in_s)} at {figure(table.dead_s)} rows/s"


def _rows_in_two_hours(table: Upkeep) -> int:
    return max(_PROPOSED_MIN, round(min(table.dead_s * DUE_S, table.due_rows / 10)))


def _options(table: Upkeep) -> dict[str, str]:
    """Return a threshold in rows: at most those of two hours, and a tenth of today's."""
    return {
        "autovacuum_vacuum_scale_factor": "0",
        "autovacuum_vacuum_threshold": f"{_rows_in_two_hours(table)}",
    }


def _proposals(table: Upkeep, share: float) -> list[Proposal]:
    ratio = 1.0 / (1.0 - min(0.9, share * LIFTABLE))
    if ratio < WORTHWHILE_RATIO:
        return []
    change = Change(table_options={table.relation: _options(table)})
    why = f"it would be vacuumed at {figure(_rows_in_two_hours(table))} dead rows"
    return [
        Proposal(remedy_id="autovacuum-threshold", change=change, predicted_ratio=ratio, why=why)
    ]


def _advice(table: Upkeep) -> str:
    options = ", ".join(f"{name} = {value}" for name, value in _options(table).items())
    return f"ALTER TABLE {relation(table.relation)} SET ({options})"


def _evidence(s: Situation, table: Upkeep) -> list[Evidence]:
    return [
        s.evidence("table with the most rows made dead", table.relation, ""),
        s.evidence("its rows", table.rows, "rows"),
        s.evidence("its dead rows", table.dead, "rows"),
        s.evidence("growth of its dead rows", table.dead_s, "rows/s"),
        s.evidence("threshold of autovacuum", table.due_rows, "rows",
                   f"at least {DEAD_ROWS_MAX:,}, and not soon; or they cost time"),
        s.evidence("due at this rate in", table.due_in_s, "s"),
    ]  # fmt: skip


SIGNATURE = Signature(
    id="autovacuum-threshold",
    false_positives=(
        "a burst of updates that ends; page accesses that grow because the tables do, or because"
        " other rows are asked for"
    ),
    examine=examine,
)
