"""The standbys of a server as it reports them, and which of them a commit waits for.

pg_stat_replication gives the time from the local flush of some WAL until each standby reported it
as written, flushed and replayed. The time until written is the network both ways, and what the
sender queues. Single samples are interpolated and can be far too small (LagTrackerRead in
walsender.c), so that the round trip is estimated by their median, not by the smallest.

Source: PostgreSQL's documentation, "pg_stat_replication" and synchronous_standby_names.
"""

from __future__ import annotations

import math
import re
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from pgdyno.record import Series
from pgdyno.spec.server_settings import choice_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pgdyno.facts.slices import Facts

Confirmation = Literal["written", "flushed", "replayed"]
SYNCHRONOUS = ("sync", "quorum")
_NAMES = re.compile(
    r"\s*(?:(?P<method>any|first)\s+)?(?P<count>[0-9]+)\s*\((?P<list>.*)\)\s*",
    re.IGNORECASE | re.DOTALL,
)
_CONFIRMED_AS: Mapping[str, Confirmation] = {
    "remote_write": "written",
    "on": "flushed",
    "remote_apply": "replayed",
}


class StandbyTimes(Struct, frozen=True):
    """A standby; times in milliseconds from the local flush, averaged, NaN if not reported."""

    name: str
    sync_state: str
    written_ms: float
    flushed_ms: float
    replayed_ms: float
    round_trip_ms: float
    """Estimate of the network's round trip: the median time until something was written."""

    def confirmed_ms(self, confirmation: Confirmation) -> float:
        """Return the average time until it confirmed some WAL in this way."""
        times: dict[Confirmation, float] = {
            "written": self.written_ms,
            "flushed": self.flushed_ms,
            "replayed": self.replayed_ms,
        }
        return times[confirmation]


class WaitedFor(Struct, frozen=True):
    """The value of synchronous_standby_names."""

    any_of: bool
    """True for ANY: the fastest ones; false for FIRST: those listed first."""
    count: int
    listed: str
    """The list of names, as written."""


def waited_for(names: str | None) -> WaitedFor | None:
    """Parse synchronous_standby_names; None if commits wait for no standby."""
    text = (names or "").strip()
    if not text:
        return None
    match = _NAMES.fullmatch(text)
    if match is None:
        return WaitedFor(any_of=False, count=1, listed=text)
    any_of = (match["method"] or "").lower() == "any"
    return WaitedFor(any_of, int(match["count"]), match["list"].strip())


def confirmation_of(synchronous_commit: str | None) -> Confirmation:
    """Return the standby's state that a commit waits for; the default's if the level is unknown."""
    return _CONFIRMED_AS.get(choice_of(synchronous_commit or "on"), "flushed")


def standbys(s: Facts) -> list[StandbyTimes]:
    """Return the standbys that were connected, by name; several of one name count as one."""
    series = s.run.series("metric_replication", s.slice_ids)
    names = sorted({str(name) for name in series["application_name"]})
    return [_standby(series, name) for name in names]


def synchronous(connected: list[StandbyTimes], confirmation: Confirmation) -> list[StandbyTimes]:
    """Return those that commits may wait for, the fastest first."""
    chosen = [each for each in connected if each.sync_state in SYNCHRONOUS]
    return sorted(chosen, key=lambda each: _or_zero(each.confirmed_ms(confirmation)))


def _standby(series: Series, name: str) -> StandbyTimes:
    mine = series["application_name"] == name
    written = [float(value) for value in series["write_lag_ms"][mine] if value == value]
    states = [str(state) for state in series["sync_state"][mine]]
    return StandbyTimes(
        name=name,
        sync_state=states[-1],
        written_ms=_mean(series["write_lag_ms"][mine]),
        flushed_ms=_mean(series["flush_lag_ms"][mine]),
        replayed_ms=_mean(series["replay_lag_ms"][mine]),
        round_trip_ms=median(written) if written else math.nan,
    )


def _mean(values: Any) -> float:
    known = values[values == values]
    return float(known.mean()) if known.size else math.nan


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value
