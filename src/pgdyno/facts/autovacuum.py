"""Autovacuum's own arithmetic: which tables are due by their dead rows, and since when.

A table is vacuumed when it has more dead rows than

    autovacuum_vacuum_threshold + autovacuum_vacuum_scale_factor * reltuples

but at most autovacuum_vacuum_max_threshold (18 and later). Storage parameters of the table have
precedence. Each database is looked at once per autovacuum_naptime.
Source: "The Autovacuum Daemon" in chapter 24.1 of the manuals of versions 14 to 18.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Any

from msgspec import Struct

from pgdyno.facts.slices import Facts
from pgdyno.record import RunFile, Series, WaitTotal
from pgdyno.record.finding import Skip
from pgdyno.spec.server_settings import AUTOVACUUM, naptime_s, switch_of
from pgdyno.wait_events import VACUUM_DELAY, canonical

WORKER = "autovacuum worker"
NAPTIMES = 3
OVERDUE_S_MIN = 5.0
TIMES = 2
"""A table is overdue that has been above its threshold for so many times autovacuum_naptime, and at
least ``OVERDUE_S_MIN``, with so many times the dead rows of the threshold at the end."""
_MAX_THRESHOLD_SINCE = 180_000


class Upkeep(Struct, frozen=True):
    """A table's dead rows over the period, by the statistics that autovacuum acts on."""

    relation: str
    rows: float
    """reltuples."""
    dead: float
    """n_dead_tup at the end."""
    dead_s: float
    """Growth of n_dead_tup per second, the median from sample to sample."""
    made_dead: float
    """Rows updated or deleted in the period."""
    due_rows: float
    """Dead rows above which autovacuum vacuums it."""
    overdue_s: float
    """Time up to the end for which it had more dead rows than ``due_rows``."""
    vacuums: float
    """Autovacuums that ended in the period."""
    enabled: bool
    """False if its option autovacuum_enabled is off."""

    @property
    def piled_up(self) -> bool:
        """True if it has ``TIMES`` as many dead rows as make autovacuum come."""
        return self.dead >= TIMES * self.due_rows

    @property
    def due_in_s(self) -> float | None:
        """Time until autovacuum is due at this rate; None if dead rows do not grow."""
        if self.dead > self.due_rows:
            return 0.0
        return (self.due_rows - self.dead) / self.dead_s if self.dead_s > 0 else None


class Autovacuum:
    """Settings of autovacuum, and what it was seen doing over the period of ``s``."""

    def __init__(self, s: Facts) -> None:
        self._s = s

    def number(self, name: str, options: Mapping[str, str] | None = None) -> float:
        """Return a numeric setting, a table's option if it has one, or PostgreSQL's default."""
        return float((options or {}).get(name) or self._text(name))

    def _text(self, name: str) -> str:
        known = self._s.settings.text(name)
        return AUTOVACUUM[name] if known is None else known

    @property
    def naptime_s(self) -> float:
        """Time between two looks at a database."""
        return naptime_s(self._s.settings)

    @property
    def patience_s(self) -> float:
        """Time after which a table that is due is overdue."""
        return max(NAPTIMES * self.naptime_s, OVERDUE_S_MIN)

    @property
    def off(self) -> str | None:
        """The setting that turns it off in the whole server, None if it is on."""
        for name in ("autovacuum", "track_counts"):
            if self._s.settings.is_on(name) is False:
                return name
        return None

    @cached_property
    def tables(self) -> list[Upkeep]:
        """The tables that were written to most. Skip if not recorded."""
        s = self._s
        facts = s.run.series("metric_autovacuum", s.slice_ids)
        counters = s.run.series("metric_table", s.slice_ids)
        known = {str(name): i for i, name in enumerate(facts["relation"])}
        if not known:
            raise Skip("what autovacuum compares with its thresholds was not recorded")
        return [self._upkeep(counters, facts, i) for i in known.values()]

    @property
    def overdue(self) -> list[Upkeep]:
        """The tables that autovacuum should have come to long ago, the longest time first."""
        late = (t for t in self.tables if t.piled_up and t.overdue_s >= self.patience_s)
        return sorted(late, key=lambda table: -table.overdue_s)

    def _upkeep(self, counters: Series, facts: Series, i: int) -> Upkeep:
        relation = str(facts["relation"][i])
        mine = counters["relation"] == relation
        at_ms, dead = counters["at_ms"][mine], counters["n_dead_tup"][mine]
        options = options_of(facts["options"][i])
        rows = max(0.0, float(facts["reltuples"][i]))
        due = self.due_rows(rows, options)
        made = sum(_rise(counters[name][mine]) for name in ("n_tup_upd", "n_tup_del"))
        return Upkeep(
            relation=relation,
            rows=rows,
            dead=float(dead[-1]) if len(dead) else 0.0,
            dead_s=_usual_growth(at_ms, dead),
            made_dead=made,
            due_rows=due,
            overdue_s=_time_above(at_ms, dead, due),
            vacuums=_rise(counters["autovacuum_count"][mine]),
            enabled=switch_of(options.get("autovacuum_enabled", "on")) is not False,
        )

    def due_rows(self, rows: float, options: Mapping[str, str]) -> float:
        """Return the dead rows above which a table of this size is vacuumed."""
        due = self.number("autovacuum_vacuum_threshold", options)
        due += self.number("autovacuum_vacuum_scale_factor", options) * rows
        if self._s.server_version_num >= _MAX_THRESHOLD_SINCE:
            most = self.number("autovacuum_vacuum_max_threshold", options)
            due = due if most < 0 else min(due, most)
        return due

    @cached_property
    def workers(self) -> float:
        """Autovacuum workers on average, by the sampled states."""
        return sum(w.average for w in self._worker_waits)

    @cached_property
    def asleep_share(self) -> float:
        """Share of the workers' time spent asleep for the cost delay, 0 to 1."""
        asleep = sum(
            w.average
            for w in self._worker_waits
            if canonical(w.wait_event_type, w.wait_event) in VACUUM_DELAY
        )
        return asleep / self.workers if self.workers > 0 else 0.0

    @cached_property
    def _worker_waits(self) -> list[WaitTotal]:
        return [w for w in self._s.run.waits(self._s.slice_ids) if w.backend_type == WORKER]


def options_of(text: Any) -> dict[str, str]:
    """Return a table's storage parameters, written ``name=value name=value``."""
    pairs = (option.partition("=") for option in str(text or "").split())
    return {name: value for name, _, value in pairs}


def _rise(values: Any) -> float:
    """Return the rise of a counter over its samples; a decrease counts as 0."""
    known = [float(value) for value in values if value == value]
    return sum(max(0.0, after - before) for before, after in pairwise(known))


def _usual_growth(at_ms: Any, values: Any) -> float:
    """Return the median growth per second from sample to sample: neither vacuum nor ANALYZE, which
    set the value, move it."""
    rates = [
        1000 * float(values[i] - values[i - 1]) / float(at_ms[i] - at_ms[i - 1])
        for i in range(1, len(values))
        if at_ms[i] > at_ms[i - 1] and values[i] != values[i - 1]
    ]
    return max(0.0, median(rates)) if rates else 0.0


def _time_above(at_ms: Any, values: Any, bar: float) -> float:
    """Return the seconds up to the last sample for which all values were above ``bar``."""
    first = len(values)
    while first > 0 and values[first - 1] > bar:
        first -= 1
    return float(at_ms[-1] - at_ms[first]) / 1000 if first < len(values) else 0.0


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
