"""Storage parameters of tables, as far as they were recorded."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.diagnose.facts.autovacuum import options_of
from pgdyno.record import RunFile


def recorded_options(run: RunFile) -> Mapping[str, Mapping[str, str]]:
    """Return the parameters that are set, by table; of some tables only the fillfactor is known."""
    found: dict[str, dict[str, str]] = {}
    counters = run.series("metric_table")
    for table, value in zip(counters["relation"], counters["fillfactor"], strict=True):
        if value == value:
            found.setdefault(str(table), {})["fillfactor"] = f"{value:.0f}"
    facts = run.series("metric_autovacuum")
    for table, text in zip(facts["relation"], facts["options"], strict=True):
        found.setdefault(str(table), {}).update(options_of(text))
    return found
