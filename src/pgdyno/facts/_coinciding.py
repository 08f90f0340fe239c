"""Events that coincide with a change of throughput or a drop: they began, ended or shifted then.

Something that was there before as well as after a change cannot tell why throughput changed: such
waits are left out. A WAL segment switch is named only if switches are so rare that one is unlikely
to be near by chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from pgdyno.facts.denied_time import FOUND_SHARE, STOLEN_SHARE
from pgdyno.facts.drops import AROUND_MS, Overlap
from pgdyno.facts.slices import Facts
from pgdyno.numbers import percent
from pgdyno.record import Series
from pgdyno.record.fileformat import LITTLE_EACH
from pgdyno.record.finding import Window

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BESIDE_MS = 10_000
"""Time before and after a change in which the host and the waits are compared."""
CHANCE_MAX = 0.2
"""Largest expected number of segment switches near any moment that lets one tell something."""
SEGMENT_BYTES = 16 << 20
"""PostgreSQL's default of wal_segment_size, which is recorded only if it differs."""
CPU_PARTS = ("user", "system", "iowait", "steal", "idle")


class Ties:
    """Events and samples that can be tied to a moment of the run."""

    def __init__(self, s: Facts) -> None:
        self._s = s
        self._overlap = Overlap(s)

    def around(self, at_ms: int, *, within_ms: int = 0) -> tuple[str, ...]:
        """Return the events that coincide with a change of level, whose moment is known to within
        ``within_ms``; () if none that was watched does."""
        near = (at_ms - AROUND_MS - within_ms, at_ms + AROUND_MS + within_ms)
        before, after = (near[0] - BESIDE_MS, near[0]), (near[1], near[1] + BESIDE_MS)
        lasting = self._reasons(before) & self._reasons(after)
        details = (
            detail for reason, detail in self._overlap.reasons(near) if reason not in lasting
        )
        return (
            *self._overlap.events(near),
            *details,
            *self._shifts((at_ms - BESIDE_MS, at_ms), (at_ms, at_ms + BESIDE_MS)),
            *self._switches(near),
        )

    def during(self, window: Window) -> tuple[str, ...]:
        """Return coincidences with a drop beyond its events and waits."""
        before = (window[0] - BESIDE_MS, window[0])
        return (*self._shifts(before, window), *self._switches(window))

    def _reasons(self, window: Window) -> set[str]:
        return {reason for reason, _ in self._overlap.reasons(window)}

    def _shifts(self, before: Window, after: Window) -> Iterator[str]:
        """CPU time of the hypervisor and of other programs that changed from one to the other."""
        was, now = self._stolen_share(before), self._stolen_share(after)
        if was is not None and now is not None and abs(now - was) >= STOLEN_SHARE:
            yield f"stolen CPU time went from {percent(was)} to {percent(now)}"
        for name, (at_ms, used_ms) in self._programs.items():
            was, now = (
                _rise(at_ms, used_ms, window) / self._cpu_ms(window) for window in (before, after)
            )
            if abs(now - was) >= FOUND_SHARE:
                yield f"{name} went from {percent(was)} to {percent(now)} of the CPU time"

    def _cpu_ms(self, window: Window) -> float:
        """CPU time that the machine had within the measured part of a window."""
        at_ms = self._host["at_ms"]
        if len(at_ms):
            window = max(window[0], int(at_ms[0])), min(window[1], int(at_ms[-1]))
        return self._s.cores_of_machine * max(window[1] - window[0], 1000)

    @cached_property
    def _host(self) -> Series:
        return self._s.run.series("metric_host", self._s.slice_ids)

    def _stolen_share(self, window: Window) -> float | None:
        """Stolen part of the machine's CPU time; None if it was not recorded in the window."""
        inside = (self._host["at_ms"] >= window[0] - 1000) & (self._host["at_ms"] <= window[1])
        if inside.sum() < 2:
            return None
        ms = {n: self._host[f"cpu_{n}_ms"][inside] for n in CPU_PARTS}
        rises = {name: float(values[-1] - values[0]) for name, values in ms.items()}
        total = sum(rises.values())
        return rises["steal"] / total if total > 0 else None

    @cached_property
    def _programs(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Times, and CPU time used until then in ms, of each of the other programs."""
        rows = self._s.run.series("metric_program", self._s.slice_ids, where={"whose": "other"})
        names = rows["program"]
        return {
            str(name): (rows["at_ms"][names == name], rows["cpu_ms"][names == name])
            for name in sorted({*names.tolist()} - {LITTLE_EACH})
        }

    def _switches(self, window: Window) -> Iterator[str]:
        """A switch of the WAL segment within the window, if that is more than chance."""
        switches = self._switch_windows
        lasted_ms = 1000 * self._s.seconds
        near_ms = window[1] - window[0]
        if len(switches) * near_ms > CHANCE_MAX * lasted_ms:
            return
        if any(start < window[1] and end >= window[0] for start, end in switches):
            yield "a switch to the next WAL segment"

    @cached_property
    def _switch_windows(self) -> list[Window]:
        """Times between two samples of which a segment ended; more than one counts once."""
        size = self._s.settings.size_bytes("wal_segment_size") or SEGMENT_BYTES
        rows = self._s.run.series("metric_wal", self._s.slice_ids)
        known = rows["insert_lsn_bytes"] == rows["insert_lsn_bytes"]
        at_ms, segment = rows["at_ms"][known], rows["insert_lsn_bytes"][known] // size
        return [
            (int(at_ms[n]), int(at_ms[n + 1]))
            for n in range(len(at_ms) - 1)
            if segment[n + 1] > segment[n]
        ]


def _rise(at_ms: NDArray[np.int64], used_ms: NDArray[np.float64], window: Window) -> float:
    """Return the rise of a cumulative figure within a window."""
    start, end = (
        float(used_ms[at_ms <= edge][-1] if (at_ms <= edge).any() else used_ms[0])
        for edge in window
    )
    return max(0.0, end - start)
