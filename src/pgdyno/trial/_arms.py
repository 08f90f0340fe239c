"""The arms of a trial, baseline and change: throughput, p99 and counts by client group and slice.

In an open loop, a slice may do transactions that another slice left in the queue. A session drains
the queue between slices; what could not be drained in time is charged to the slice that left it:
no slice counts more transactions of an open loop than became due in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from pgdyno.record import RunFile
from pgdyno.results.common import Measure
from pgdyno.spec import ClientGroup, Spec

RATE_SLACK = 0.01
"""Share of the intended transactions that may be missing while the rate still counts as held."""


class GroupSlice(Struct, frozen=True):
    """Transactions of a client group in one slice."""

    intended: int
    done: int
    failed: int = 0
    backlog_growth: int = 0
    """Growth of the backlog between the start and the end of the slice."""
    latency_p99_ns: float = 1.0

    def served(self, *, open_loop: bool) -> float:
        """Return the number of transactions that the slice is credited with: in an open loop at
        most those that became due in it. Half of one if there was none, which has a logarithm."""
        return max(min(self.done, self.intended) if open_loop else self.done, 0.5)


def held(slices: Iterable[GroupSlice], clients: int) -> bool:
    """True if the rate was held: nearly all intended transactions were done.

    Each of the ``clients`` may have one transaction under way at the end of each slice; what is
    then in the queue is drained before the next one.
    """
    parts = list(slices)
    intended = sum(part.intended for part in parts)
    done = sum(part.done for part in parts)
    growth = sum(part.backlog_growth for part in parts)
    slack = RATE_SLACK * intended
    return intended - done - growth <= slack and growth <= max(clients * len(parts), slack)


class SliceFigures(Struct, frozen=True):
    """The figures of one slice."""

    slice_id: int
    seconds: float
    groups: Mapping[str, GroupSlice]
    latency_p99_ns: float

    @staticmethod
    def of(run: RunFile, slice_id: int) -> SliceFigures:
        """Return the figures of a slice of a run file."""
        names = dict.fromkeys(row.client_group for row in run.group_intervals([slice_id]))
        return SliceFigures(
            slice_id=slice_id,
            seconds=run.seconds([slice_id]),
            groups={name: _group_slice(run, slice_id, name) for name in names},
            latency_p99_ns=_p99_ns(run, slice_id, None),
        )

    @property
    def done(self) -> int:
        """Transactions done by all groups."""
        return sum(group.done for group in self.groups.values())

    def tps(self, open_loops: Mapping[str, bool]) -> float:
        """Return the throughput; ``open_loops`` has by group whether its loop is open."""
        served = (
            part.served(open_loop=open_loops.get(name, False))
            for name, part in self.groups.items()
            if part.done
        )
        return sum(served) / self.seconds


def _group_slice(run: RunFile, slice_id: int, name: str) -> GroupSlice:
    ledger = run.ledger([slice_id], group=name)
    growth = ledger.backlog - ledger.carried_in
    p99_ns = _p99_ns(run, slice_id, name)
    return GroupSlice(ledger.intended, ledger.done, ledger.failed, growth, p99_ns)


def _p99_ns(run: RunFile, slice_id: int, group: str | None) -> float:
    return max(run.histogram("response", [slice_id], group=group).percentile(99), 1)


class Arm(Struct):
    """The slices of one side, in the order of the pairs."""

    slices: list[SliceFigures] = field(default_factory=list)

    @property
    def ids(self) -> list[int]:
        """Ids of the slices."""
        return [each.slice_id for each in self.slices]

    def tps(self, spec: Spec) -> list[float]:
        """Return the throughput of each slice."""
        loops = {group.name: group.open_loop is not None for group in spec.clients}
        return [each.tps(loops) for each in self.slices]

    @property
    def latency_p99_ns(self) -> list[float]:
        """The p99 of all groups together in each slice."""
        return [each.latency_p99_ns for each in self.slices]

    def of_group(self, name: str) -> list[GroupSlice]:
        """Return the counts of a group in each slice."""
        return [each.groups.get(name, GroupSlice(0, 0)) for each in self.slices]

    def held(self, group: ClientGroup) -> bool:
        """True if the group held its rate."""
        return held(self.of_group(group.name), group.count)


def working(spec: Spec) -> list[ClientGroup]:
    """Return the client groups that execute transactions."""
    return [group for group in spec.clients if not group.idle]


def measure_of(spec: Spec, sides: Iterable[Arm]) -> Measure:
    """Return the figure by which the sides are compared.

    If every group is an open loop and both sides held the rate of each, their throughput is equal
    by construction, and latency at that rate is compared. If a rate was not held, throughput is
    compared: it is then the server's maximum.
    """
    groups = working(spec)
    both = list(sides)
    all_held = all(group_measure(group, *both) == "latency_p99" for group in groups)
    return "latency_p99" if all_held else "throughput"


def group_measure(group: ClientGroup, *sides: Arm) -> Measure:
    """Return the figure by which the sides of one group are compared."""
    fixed = group.open_loop is not None and all(side.held(group) for side in sides)
    return "latency_p99" if fixed else "throughput"
