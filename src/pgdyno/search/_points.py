"""A point of the curve, measured: a slice with so many clients, at a rate, or with a pool size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from pgdyno.conduct import Session
from pgdyno.facts.failures import failures, failures_max, too_many
from pgdyno.facts.groups import GroupAccount, group_accounts, open_loop_sentence
from pgdyno.record import RunFile, SliceKind
from pgdyno.search.slo import Limit
from pgdyno.spec import Change
from pgdyno.stats import mean_bounds
from pgdyno.stats.steady import DRIFT_MATTERS

if TYPE_CHECKING:
    from pgdyno._engine import Histogram

BEHIND_SHARE = 0.03
"""Share of the due transactions that may wait at the end of a slice, or be skipped, while the rate
still counts as held: less than the precision of the search."""
CONNECT_SECONDS = 0.3
"""Time for which new clients, or connections, execute their first transactions before a slice."""
RESTARTED_SECONDS_MAX = 1.0
"""Longest warm-up of a load that had to be restarted for a point."""
Varied = Literal["clients", "rate", "pool", "pooler"]


class Aim(Struct, frozen=True):
    """The aim of a search: the quantity that is varied, of which group, on top of which change."""

    varied: Varied
    group: str
    base: Change
    limits: tuple[Limit, ...] = ()
    clients: int = 0
    """Number of clients that send at a rate, where that is varied."""
    rate: float = 1.0
    """Rate of the spec."""
    setting: str = ""
    """Key of the pooler's setting that is varied, as in a spec."""
    pools: int = 0
    """With ``setting`` beside pools of the application: it follows them, as the sum of so many."""

    def change(self, point: float) -> Change:
        """Return the change with ``point`` clients, a pool of ``point``, or the rate ``point``."""
        match self.varied:
            case "clients":
                change = Change(clients={self.group: round(point)})
            case "pool":
                change = Change(pool_max={self.group: round(point)})
                if self.pools:
                    follows = {self.setting: str(self.pools * round(point))}
                    change = Change(spec=follows).over(change)
            case "pooler":
                change = Change(spec={self.setting: str(round(point))})
            case "rate":
                factor = point / self.rate
                change = Change(clients={self.group: self.clients}, rate={self.group: factor})
        return change.over(self.base)


class PointSlice(Struct, frozen=True):
    """A slice at a point; ``why`` is the reason why it is not met, '' if it is."""

    slice_id: int
    seconds: float
    tps: float
    halves: tuple[float, float]
    """Throughput of its first and second half."""
    response: Histogram
    service_ms: float
    """Mean, from the first byte sent to the last answer."""
    behind: bool
    """True if the backlog grew."""
    failing: str
    """The failures, if they are more than allowed; '' if not."""
    why: str


class VoidPoint(Exception):
    """Raised when a slice at a point is void."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def measure_point(
    session: Session, aim: Aim, point: float, seconds: float, *, kind: SliceKind = SliceKind.POINT
) -> PointSlice:
    """Measure a slice at ``point``. Raises VoidPoint if it is void."""
    session.drain()
    session.apply(aim.change(point), warm_up_s_max=RESTARTED_SECONDS_MAX)
    if aim.varied != "rate":
        session.wait_connected()
        session.wait(CONNECT_SECONDS)
    slice_id = session.slice(seconds, kind=kind)
    run = session.reader()
    if (why := run.slice(slice_id).void) is not None:
        raise VoidPoint(why)
    return _slice_of(run, aim, slice_id)


def _slice_of(run: RunFile, aim: Aim, slice_id: int) -> PointSlice:
    account = next(a for a in group_accounts(run, [slice_id]) if a.name == aim.group)
    response = run.histogram("response", [slice_id], group=aim.group)
    service = run.histogram("service", [slice_id], group=aim.group)
    failed = failures(run, [slice_id], aim.group)
    failing = f"{failed} failed" if too_many(failed, failures_max(run)) else ""
    done = account.ledger.done
    # What a slice at a rate does of the queue of the slice before is not its own.
    done = min(done, account.ledger.intended) if aim.varied == "rate" else done
    return PointSlice(
        slice_id=slice_id,
        seconds=account.seconds,
        tps=done / account.seconds,
        halves=_halves(run, aim.group, slice_id),
        response=response,
        service_ms=service.mean / 1e6,
        behind=_is_behind(account),
        failing=failing,
        why=failing or _unmet(aim, account, response),
    )


def _unmet(aim: Aim, account: GroupAccount, response: Histogram) -> str:
    """Return why the limits are not met or the rate is not held; '' if both are."""
    exceeded = [each.exceeded_words(response) for each in aim.limits if not each.is_met(response)]
    if not _is_behind(account):
        return " and ".join(exceeded)
    return "; ".join([open_loop_sentence(account), *exceeded])


def _is_behind(account: GroupAccount) -> bool:
    """Return whether transactions of an open loop were skipped, or its backlog grew by more than
    its clients may have under way, and by more than a stall at the end leaves."""
    ledger = account.ledger
    slack = BEHIND_SHARE * ledger.intended
    grown = ledger.backlog - ledger.carried_in
    waiting = account.arrival is not None and grown > max(account.clients, slack)
    return waiting or ledger.skipped > slack


def _halves(run: RunFile, group: str, slice_id: int) -> tuple[float, float]:
    """Return the throughput of the first and the second half of a slice, by its intervals."""
    rows = [
        each
        for each in run.intervals([slice_id], by=("client_group",))
        if each.client_group == group
    ]
    lasted_ms = sum(each.duration_ms for each in rows)
    halves, passed_ms = ([0.0, 0.0], [0.0, 0.0]), 0.0
    for each in rows:
        half = halves[passed_ms + each.duration_ms / 2 > lasted_ms / 2]
        half[0] += each.done
        half[1] += each.duration_ms
        passed_ms += each.duration_ms
    first, second = (1000 * done / ms if ms else 0.0 for done, ms in halves)
    return first, second


def is_steady(slices: Sequence[PointSlice]) -> bool | None:
    """Return whether throughput was the same in both halves of a point's slices, within 10 %, and
    the backlog did not grow in most of them. None: one slice, or a larger drift that the spread of
    the slices explains, cannot tell."""
    if 2 * sum(each.behind for each in slices) > len(slices):
        return False
    pairs = [each.halves for each in slices if min(each.halves) > 0]
    if len(pairs) < 2:
        return None
    logs = [math.log(second / first) for first, second in pairs]
    low, high = mean_bounds(logs)
    drift = abs(sum(logs) / len(logs))
    if drift <= math.log1p(DRIFT_MATTERS):
        return True
    return None if low <= 0 <= high else False
