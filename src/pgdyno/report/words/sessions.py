"""Client sessions in words and tables: states, origins, ages, connections made."""

from __future__ import annotations

from collections.abc import Collection

from pgdyno import numbers
from pgdyno.facts import client_sessions
from pgdyno.facts.client_sessions import AGES, SessionOrigin
from pgdyno.record import RunFile
from pgdyno.record.sessionages import STATES, WORDS
from pgdyno.report.words.tables import Table, figures_table

SHORT = ("active", "idle", "in transaction", "aborted", "fastpath", "disabled", "hidden")
"""Heads of the columns of ``client_sessions.COLUMNS``."""
ORIGINS_MAX = 8
AGE_NAMES = {
    "idle_ages": "idle, since they became idle",
    "pause_ages": "idle in transaction, since they became so",
    "transaction_ages": "in a transaction, since it began",
    "connection_ages": "all, since they connected",
}
assert set(AGE_NAMES) == set(AGES)
NOTABLE = 10
"""Idle sessions on average from which on a terminal shows them."""


def is_notable(run: RunFile, slice_ids: Collection[int] | None) -> bool:
    """True if sessions have several purposes, or many do nothing."""
    idle = client_sessions.idle_on_average(run, slice_ids)
    if idle is None:
        return False
    return idle >= NOTABLE or len(run.run.spec.get("clients") or []) > 1


def sentence(run: RunFile, slice_ids: Collection[int] | None) -> str:
    """Return average and highest number in each state that occurred, the connections made and the
    load average; '' if nothing was recorded."""
    states = client_sessions.by_state(run, slice_ids)
    seen = {state: values for state, values in states.items() if values.any()}
    if not seen:
        return ""
    parts = [
        f"{numbers.significant(float(values.mean()))} {state} (at most {values.max():,.0f})"
        for state, values in seen.items()
    ]
    words = ", ".join(parts)
    made = client_sessions.churn(run, slice_ids)
    if made is not None:
        words += f"; {numbers.significant(made.per_s)} connections made per second"
        if made.broken:
            words += f", {made.broken:,} ended by an error"
    load1 = run.series("metric_host", slice_ids)["load1"]
    if len(load1):
        words += f"; load average at most {numbers.significant(float(load1.max()))}"
    return words


def origins_table(run: RunFile, slice_ids: Collection[int] | None) -> Table | None:
    """Return the average number of sessions in each state by origin."""
    found = client_sessions.origins(run, slice_ids)
    if not found:
        return None
    rows = [_row(each) for each in found[:ORIGINS_MAX]]
    caption = "Client sessions by application, role and address, on average"
    if len(found) > ORIGINS_MAX:
        caption += f"; the {ORIGINS_MAX} of {len(found)} with most"
    head = ["Sessions of", "all", *SHORT, "most at once", "never used"]
    return figures_table(caption, head, rows)


def ages_table(run: RunFile, slice_ids: Collection[int] | None) -> Table | None:
    """Return the ages of sessions at the end."""
    found = client_sessions.origins(run, slice_ids)
    if not found:
        return None
    rows = [
        [words, *map(numbers.count, client_sessions.ages_at_end(found, column))]
        for column, words in AGE_NAMES.items()
    ]
    return figures_table("Client sessions by age, at the end", ["Sessions", *WORDS], rows)


def tables(run: RunFile, slice_ids: Collection[int] | None) -> list[Table]:
    """Return both tables where a page shows them: see :func:`is_notable`."""
    if not is_notable(run, slice_ids):
        return []
    made = (origins_table(run, slice_ids), ages_table(run, slice_ids))
    return [table for table in made if table is not None]


def _row(origin: SessionOrigin) -> list[str]:
    figures = [origin.mean, *origin.means.values()]
    shown = [numbers.significant(each) if each else "0" for each in figures]
    return [origin.name, *shown, numbers.count(origin.most), numbers.count(origin.unused)]


assert len(SHORT) == len(STATES) + 1
