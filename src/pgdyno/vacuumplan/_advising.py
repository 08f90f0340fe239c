"""The storage parameters of one table, from its rates and sizes and the server's version.

Aim: a busy table is vacuumed about every ``every_h`` hours, 2 by default, as in Senzing's
experiments with large loads, where percentages made all partitions of a table fire together. So
thresholds are in rows, and staggered: no two tables have the same share of the aim.

- Dead rows of deletes and of updates that are not HOT; those of HOT updates are pruned by whoever
  reads the page.
- No plan lets a table have more dead rows than the present settings do, or than the default would
  (50 and 20 %, postgresql.conf): a trigger only becomes lower, and only where the table is then
  vacuumed earlier, which it is not within one autovacuum_naptime.
- A table that only grows is vacuumed by its inserts (13 and later), and what is frozen then is
  never written again: autovacuum_freeze_min_age = 0.
- Forced freezing is staggered among large tables, where it is near.
- The cost limit is raised where the pages that a vacuum must write do not fit into a quarter of the
  time between two (10 ms of delay for vacuum_cost_limit x vacuum_cost_page_dirty, routine-vacuuming
  .html; the default delay of autovacuum is 2 ms).
- Fillfactor only where updates went to other pages because theirs was full (16 and later count
  that): an update that changes an indexed column does not gain by room.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct, field

from pgdyno.numbers import duration, figure, percent, size
from pgdyno.results.vacuum_plan import PlannedOption, PlannedTable
from pgdyno.spec.sql_text import on_one_line

ROWS_MIN = 1_000
CHANGES_MIN = 1_000
"""Rows that must have changed for a rate: the standard error of a count of 1,000 is 3 %."""
SPREAD = 0.3
"""Thresholds are up to this much lower than the aim."""
_GOLDEN = 0.618033988749895
"""Multiples of it, modulo 1, are far from each other however many there are."""
NEAR = 1.25
"""A trigger stays unless the planned time between two vacuums is shorter by more than this: the
spread is of this size."""
LARGE_BYTES = 1 << 30
FORCED_SOON_H = 30 * 24.0
_DIRTY_SHARE_MAX = 0.25
_COST_LIMIT_MAX = 10_000
NEWPAGE_MIN, HOT_ENOUGH = 0.2, 0.9
_PARAMETERS = {
    "autovacuum_naptime": 60.0,
    "autovacuum_vacuum_threshold": 50.0,
    "autovacuum_vacuum_scale_factor": 0.2,
    "autovacuum_vacuum_insert_threshold": 1000.0,
    "autovacuum_vacuum_insert_scale_factor": 0.2,
    "autovacuum_freeze_max_age": 200e6,
    "vacuum_freeze_min_age": 50e6,
    "autovacuum_vacuum_cost_limit": -1.0,
    "autovacuum_vacuum_cost_delay": 2.0,
    "autovacuum_vacuum_max_threshold": 100e6,
    "vacuum_cost_limit": 200.0,
    "vacuum_cost_page_dirty": 20.0,
}
"""Settings with their defaults."""
_SETTING_OF = {"autovacuum_freeze_min_age": "vacuum_freeze_min_age"}
"""Storage parameter → setting, where that has another name."""


class AutovacuumSettings(Struct, frozen=True):
    """Facts of the server that the plan depends on."""

    major: int
    settings: Mapping[str, float]
    every_h: float
    xids_h: float | None

    def value(self, name: str) -> float:
        """Return a setting, or its default."""
        return self.settings.get(name, _PARAMETERS.get(name, 0.0))


class TableRates(Struct, frozen=True):
    """A table with its changes over ``hours``."""

    relation: str
    rows: float
    pages: int
    size_bytes: int | None
    """With TOAST, without indexes; None: not known."""
    hours: float
    inserted: int
    updated: int
    hot: int
    newpage: int | None
    deleted: int
    xid_age: int
    options: Mapping[str, str] = field(default_factory=dict)
    unfrozen: float = 1.0
    """Share of the pages that is not all-frozen: from version 18 on, the scale factor of inserts is
    a share of the rows there."""

    @property
    def changes(self) -> int:
        """Rows that changed."""
        return self.inserted + self.updated + self.deleted

    @property
    def dead_h(self) -> float:
        """Rows per hour that only a vacuum removes."""
        return (self.updated - self.hot + self.deleted) / self.hours

    @property
    def inserts_h(self) -> float:
        """Rows per hour that are new: HOT updates are not."""
        return self.inserted / self.hours


def plan_table(server: AutovacuumSettings, table: TableRates, rank: int) -> PlannedTable:
    """Return the plan of the ``rank``-th busiest table."""
    advice = _Advice(server, table, 1.0 - SPREAD * ((rank * _GOLDEN) % 1.0))
    advice.enable()
    advice.dead_rows()
    advice.inserted_rows()
    advice.forced_freezing()
    advice.cost_limit()
    advice.fillfactor()
    wanted = {name: value for name, value, _ in advice.wanted}
    return PlannedTable(
        relation=table.relation,
        rows=table.rows,
        size_bytes=table.size_bytes,
        inserts_h=table.inserted / table.hours,
        updates_h=table.updated / table.hours,
        deletes_h=table.deleted / table.hours,
        hot_share=table.hot / table.updated if table.updated else None,
        now_every_h=_every_h(server, table, {}),
        planned_every_h=_every_h(server, table, {**_turned_on(server, table), **wanted}),
        options=tuple(
            PlannedOption(name=name, value=value, present=in_force(server, table, name), reason=why)
            for name, value, why in advice.wanted
        ),
        unsure=tuple(advice.unsure),
        statement=_statement(table.relation, wanted),
    )


def in_force(server: AutovacuumSettings, table: TableRates, name: str) -> float | None:
    """Return the value of a storage parameter: the table's own, or that of the server."""
    own = table.options.get(name)
    if own is not None:
        return _number(own)
    if name in ("fillfactor", "autovacuum_enabled"):
        return {"fillfactor": 100.0, "autovacuum_enabled": 1.0}[name]
    return server.value(_SETTING_OF.get(name, name))


_MODELLED = (
    *("autovacuum_vacuum_threshold", "autovacuum_vacuum_scale_factor", "fillfactor"),
    *("autovacuum_vacuum_insert_threshold", "autovacuum_vacuum_insert_scale_factor"),
    "autovacuum_enabled",
)


def all_in_force(server: AutovacuumSettings, table: TableRates) -> dict[str, float]:
    """Return the parameters of a table that decide when it is vacuumed."""
    found = {name: in_force(server, table, name) for name in _MODELLED}
    if server.settings.get("autovacuum") == 0:
        found["autovacuum_enabled"] = 0.0
    return {name: value for name, value in found.items() if value is not None}


class _Advice:
    """Collects the parameters to change, part by part."""

    def __init__(self, server: AutovacuumSettings, table: TableRates, stagger: float) -> None:
        self.wanted: list[tuple[str, float, str]] = []
        self.unsure: list[str] = []
        self._server, self._table = server, table
        self._hours = server.every_h * stagger

    def _set(self, name: str, value: float, why: str) -> None:
        if in_force(self._server, self._table, name) != value:
            self.wanted.append((name, value, why))

    def enable(self) -> None:
        """Turn autovacuum on where a busy table has it off."""
        if in_force(self._server, self._table, "autovacuum_enabled") == 0:
            self._set("autovacuum_enabled", 1, "it is off, and the table changes: only forced"
                      " freezing would come")  # fmt: skip

    def dead_rows(self) -> None:
        """Lower the threshold of dead rows."""
        table = self._table
        aim = table.dead_h * self._hours
        if aim < 1:
            return
        most = math.floor(50 + 0.2 * table.rows)
        threshold = min(rounded(max(aim, ROWS_MIN)), most)
        if not self._is_earlier(threshold / table.dead_h):
            return
        why = f"{figure(table.dead_h)} dead rows an hour: a vacuum"
        why += f" {self._about_every(threshold / table.dead_h)}"
        if threshold == most:
            why += "; more than 50 and a fifth of the rows would be more dead ones than by default"
        in_rows = "in rows, so that tables do not fire together and a large one is not late"
        self._set("autovacuum_vacuum_scale_factor", 0, in_rows)
        self._set("autovacuum_vacuum_threshold", threshold, why)

    def inserted_rows(self) -> None:
        """Lower the threshold of inserted rows, and freeze rows that will not change."""
        table = self._table
        only_grows = table.dead_h < 0.01 * table.inserts_h
        aim = table.inserts_h * self._hours
        if aim < 1 or not (only_grows or table.inserts_h >= table.dead_h):
            return
        threshold = rounded(max(aim, 10 * ROWS_MIN))
        if not self._is_earlier(threshold / table.inserts_h):
            return
        every = self._about_every(threshold / table.inserts_h)
        self._set("autovacuum_vacuum_insert_scale_factor", 0, "in rows: of a table that grows, a"
                  " share comes ever later, with ever more to freeze at once")  # fmt: skip
        self._set("autovacuum_vacuum_insert_threshold", threshold,
                  f"{figure(table.inserts_h)} inserts an hour: a vacuum {every}")  # fmt: skip
        if only_grows:
            why = "rows do not change any more: freeze them with their first vacuum, so that no"
            why += " aggressive one must read and write all of the table"
            if self._server.major >= 18:
                why += " (eager freezing alone, since version 18, gives up after some failures)"
            self._set("autovacuum_freeze_min_age", 0, why)

    def _is_earlier(self, every_h: float) -> bool:
        """True if a vacuum this often comes before the one that there would be anyway."""
        wanted = {name: value for name, value, _ in self.wanted}
        enabled = {"autovacuum_enabled": 1.0}
        anyway_h = _every_h(self._server, self._table, {**wanted, **enabled})
        return anyway_h is None or max(every_h, _naptime_h(self._server)) * NEAR < anyway_h

    def _about_every(self, every_h: float) -> str:
        naptime_h = _naptime_h(self._server)
        if every_h < naptime_h:
            return f"each time that autovacuum looks, every {duration(3600 * naptime_h)}"
        return f"about every {duration(3600 * every_h)}"

    def forced_freezing(self) -> None:
        """Stagger the forced freezing of large tables."""
        table, server = self._table, self._server
        limit = server.value("autovacuum_freeze_max_age")
        if table.size_bytes is None or table.size_bytes < LARGE_BYTES or not server.xids_h:
            return
        left_h = max(0.0, limit - table.xid_age) / server.xids_h
        if left_h > FORCED_SOON_H:
            return
        age = rounded(limit * self._hours / server.every_h)
        away = f"{size(table.size_bytes)} is {duration(3600 * left_h)} away at this rate"
        why = f"forced freezing of its {away}: apart from that of other large tables"
        if age < (in_force(server, table, "autovacuum_freeze_max_age") or limit):
            self._set("autovacuum_freeze_max_age", age, why)

    def cost_limit(self) -> None:
        """Raise the cost limit of a vacuum that could not end in time."""
        table, server = self._table, self._server
        delay_ms = in_force(server, table, "autovacuum_vacuum_cost_delay") or 0.0
        if delay_ms < 0:
            delay_ms = server.value("autovacuum_vacuum_cost_delay")
        limit = in_force(server, table, "autovacuum_vacuum_cost_limit") or -1.0
        if limit < 0:
            limit = server.value("autovacuum_vacuum_cost_limit")
        if limit < 0:
            limit = server.value("vacuum_cost_limit")
        dirty = min(float(table.pages), self._changed_pages())
        if delay_ms <= 0 or limit <= 0:
            return
        seconds = dirty * server.value("vacuum_cost_page_dirty") / limit * delay_ms / 1000
        room_s = 3600 * self._hours * _DIRTY_SHARE_MAX
        if seconds <= room_s:
            return
        needed = min(float(_COST_LIMIT_MAX), rounded(limit * seconds / room_s))
        why = f"about {figure(dirty)} pages to write take {duration(seconds)} at the present limit"
        self._set("autovacuum_vacuum_cost_limit", needed, why)

    def _changed_pages(self) -> float:
        """Return the most pages that the changes between two vacuums can touch."""
        per_page = max(1.0, self._table.rows / max(1, self._table.pages))
        return (self._table.dead_h + self._table.inserts_h / per_page) * self._hours

    def fillfactor(self) -> None:
        """Leave room on pages where updates had to go to another page."""
        table = self._table
        if table.updated < CHANGES_MIN or table.hot >= HOT_ENOUGH * table.updated:
            return
        present = in_force(self._server, table, "fillfactor") or 100.0
        if table.newpage is None:
            self.unsure.append(
                f"fillfactor: {percent(table.hot / table.updated)} of the updates are HOT; version"
                f" {self._server.major} does not count why, and room helps only updates that change"
                " no indexed column"
            )
            return
        moved = table.newpage / table.updated
        if moved < NEWPAGE_MIN:
            return
        value = 90.0 if moved < 0.5 else 80.0
        if value < present:
            why = f"{percent(moved)} of the updates found no room on their page; acts on pages to"
            self._set("fillfactor", value, f"{why} come, on all after the table is rewritten")


def _every_h(
    server: AutovacuumSettings, table: TableRates, wanted: Mapping[str, float]
) -> float | None:
    """Return the hours between two vacuums at these rates; None: never, by these triggers."""
    on = wanted.get("autovacuum_enabled", in_force(server, table, "autovacuum_enabled"))
    if on == 0 or (not wanted and server.settings.get("autovacuum") == 0):
        return None
    found = []
    for kind, per_h in (("vacuum", table.dead_h), ("vacuum_insert", table.inserts_h)):
        trigger = _trigger(server, table, wanted, kind)
        if per_h > 0 and trigger is not None:
            found.append(trigger / per_h)
    if not found:
        return None
    return max(min(found), _naptime_h(server))


def _naptime_h(server: AutovacuumSettings) -> float:
    return server.value("autovacuum_naptime") / 3600


def _turned_on(server: AutovacuumSettings, table: TableRates) -> dict[str, float]:
    """Return the parameter that the plan begins with: the server's autovacuum is turned on."""
    return {"autovacuum_enabled": in_force(server, table, "autovacuum_enabled") or 0.0}


def _trigger(
    server: AutovacuumSettings, table: TableRates, wanted: Mapping[str, float], kind: str
) -> float | None:
    """Return the rows that make autovacuum come; None: none do (documentation, "The Autovacuum
    Daemon")."""

    def value(name: str) -> float:
        return wanted.get(name, in_force(server, table, name) or 0.0)

    base = value(f"autovacuum_{kind}_threshold")
    if base < 0:
        return None
    rows = table.rows * (1.0 if kind == "vacuum" else table.unfrozen)
    trigger = base + value(f"autovacuum_{kind}_scale_factor") * rows
    if kind == "vacuum" and server.major >= 18:
        most = value("autovacuum_vacuum_max_threshold")
        return min(trigger, most) if most >= 0 else trigger
    return trigger


def _statement(relation: str, wanted: Mapping[str, float]) -> str | None:
    if not wanted:
        return None
    listed = ", ".join(f"{name} = {shown(name, value)}" for name, value in wanted.items())
    return f"ALTER TABLE {on_one_line(relation)} SET ({listed});"


def shown(name: str, value: float) -> str:
    """Return a value as SQL has it."""
    if name in ("autovacuum", "autovacuum_enabled"):
        return "on" if value else "off"
    return f"{value:.0f}" if value == int(value) else f"{value:g}"


def rounded(value: float) -> float:
    """Round to three significant digits: counts have no more, and staggering needs them."""
    if value <= 0:
        return 0.0
    unit = 10 ** max(0, math.floor(math.log10(value)) - 2)
    return float(round(value / unit) * unit)


def _number(text: str) -> float | None:
    words = {"on": 1.0, "true": 1.0, "yes": 1.0, "off": 0.0, "false": 0.0, "no": 0.0}
    try:
        return words[text.lower()] if text.lower() in words else float(text)
    except ValueError:
        return None
