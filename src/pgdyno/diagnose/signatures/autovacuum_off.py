"""Autovacuum off: dead rows are never removed, and transaction IDs are frozen only in an emergency.

Trigger: autovacuum or track_counts is off, or the option autovacuum_enabled of a table is, and at
least ``DEAD_ROWS_MIN`` rows were updated or deleted there.

Thresholds: none; a setting is certain. What it costs now is measured (see ``_bloat``). Even where
autovacuum is off, PostgreSQL vacuums tables to prevent wraparound of transaction IDs.
"""

from __future__ import annotations

from pgdyno.diagnose._bloat import DEAD_ROWS_MIN, Bloat, bloat, bloat_evidence, cost_in_words
from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.autovacuum import Autovacuum
from pgdyno.diagnose.facts.holders import held_back
from pgdyno.numbers import figure
from pgdyno.record.finding import Proposal
from pgdyno.spec.change import Change
from pgdyno.spec.setting_defaults import DEFAULTS
from pgdyno.spec.sql_text import relation

LIFTABLE = 0.7
"""Vacuum comes once per naptime, and dead rows pile up in between."""


def examine(s: Situation) -> Found | Cleared:
    """Examine the settings and the options of the tables under load."""
    autovacuum = Autovacuum(s)
    tables = [t.relation for t in autovacuum.tables if not t.enabled and t.made_dead > 0]
    what = _what(autovacuum.off, tables)
    if what is None:
        return Cleared("autovacuum is on", [s.evidence("autovacuum", "on", "", "off")])
    seen = bloat(s)
    evidence = [s.evidence("off", what, ""), *bloat_evidence(s, seen)]
    if seen.rows_dead < DEAD_ROWS_MIN:
        return Cleared(f"{what} is off, and few rows become dead", evidence)
    share = 0.0 if held_back(s) else seen.share
    return Found(
        sentence=(
            f"{what} is off: {figure(seen.rows_dead_s)} rows/s become dead, and nothing removes"
            f" them{cost_in_words(seen) if share else ''}"
        ),
        parts=seen.parts if share else (),
        share=share,
        liftable=LIFTABLE,
        confidence=0.95,
        evidence=evidence,
        proposals=_proposals(autovacuum.off, share, seen),
        advice="" if not tables else _reset_options(tables),
    )


def _what(setting: str | None, tables: list[str]) -> str | None:
    if setting is not None:
        return setting
    return f"autovacuum of {', '.join(tables[:3])}" if tables else None


def _proposals(setting: str | None, share: float, seen: Bloat) -> list[Proposal]:
    ratio = 1.0 / (1.0 - min(0.9, share * LIFTABLE))
    if setting != "autovacuum" or ratio < WORTHWHILE_RATIO:
        return []
    change = Change(settings={setting: DEFAULTS[setting]})
    why = f"vacuum would remove the {figure(seen.rows_dead_s)} rows/s that become dead"
    return [
        Proposal(
            remedy_id="reset-setting", change=change, predicted_ratio=ratio, why=why, specific=True
        )
    ]


def _reset_options(tables: list[str]) -> str:
    return "; ".join(
        f"ALTER TABLE {relation(table)} RESET (autovacuum_enabled)" for table in tables[:3]
    )


SIGNATURE = Signature(
    id="autovacuum-off",
    false_positives="a schedule of manual vacuums that is not part of the run",
    examine=examine,
)
