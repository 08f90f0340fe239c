"""As many clients as make the throughput that another branch has once its events have begun.

Measured without events, from the saved state, before the branch's first measurement: bisection over
the number of clients. All client groups keep their proportions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from pgdyno.conduct import Session, warm_up_seconds_max
from pgdyno.errors import TrustError
from pgdyno.record import SliceKind
from pgdyno.results.branch import BranchMatch, MatchPoint
from pgdyno.spec import Change
from pgdyno.trial.rounds import Rounds, throughputs_tps

_SECONDS_MIN = 2.0
_TRIES_MAX = 3


class LevelToMatch(Struct, frozen=True):
    """The throughput to match: that of the other branch, before and from its first event on."""

    branch: str
    before_tps: float | None
    tps: float


def match_clients(
    session: Session, base: Change, level: LevelToMatch, *, lead_s: float
) -> tuple[Change, BranchMatch]:
    """Return ``base`` with the clients whose throughput is nearest to ``level``, and how they were
    found; with those of the spec if that is no lower than before. Leaves no load running.

    Raises TrustError if a number of clients cannot be measured.
    """
    seconds = min(session.spec.load.hold_ms / 1000, max(lead_s, _SECONDS_MIN))
    search = _Search(session, base, seconds)
    points = {} if level.before_tps is None else {search.most: level.before_tps}
    clients = nearest(search.most, level.tps, points, search.measure)
    session.interrupt_load()
    session.prepare(Change())
    found = BranchMatch(
        branch=level.branch,
        throughput_tps=round(level.tps, 2),
        clients=clients,
        of_clients=search.most,
        points=tuple(
            MatchPoint(clients=n, throughput_tps=round(tps, 2)) for n, tps in sorted(points.items())
        ),
    )
    return search.change(clients), found


def nearest(
    most: int, wanted_tps: float, points: dict[int, float], measure: Callable[[int], float]
) -> int:
    """Return the number of clients, up to ``most``, whose throughput is nearest to ``wanted_tps``;
    ``points`` has what is known, and gets what is measured."""

    def tps(clients: int) -> float:
        if clients not in points:
            points[clients] = measure(clients)
        return points[clients]

    fewer, enough = 0, most
    if tps(most) > wanted_tps:
        while enough - fewer > 1:
            middle = (fewer + enough) // 2
            if tps(middle) < wanted_tps:
                fewer = middle
            else:
                enough = middle
    return min((n for n in (enough, fewer) if n), key=lambda n: abs(math.log(tps(n) / wanted_tps)))


class _Search:
    """Measurements of numbers of clients."""

    def __init__(self, session: Session, base: Change, seconds: float) -> None:
        self._session = session
        self._base = base
        self._seconds = seconds
        working = [group for group in session.spec.clients if not group.idle]
        self._counts = {group.name: group.count for group in working}
        self.most = sum(self._counts.values())

    def change(self, clients: int) -> Change:
        """Return the change with about so many clients of all groups together, each with one."""
        share = clients / self.most
        counts = {name: max(1, round(share * count)) for name, count in self._counts.items()}
        return Change(clients=counts).over(self._base)

    def measure(self, clients: int) -> float:
        """Return the throughput of so many clients."""
        session, change = self._session, self.change(clients)
        session.apply(change, warm_up_s_max=warm_up_seconds_max(self._seconds))
        for _ in range(_TRIES_MAX):
            slice_id = session.slice(self._seconds, kind=SliceKind.MATCH)
            run = session.reader()
            if (void := run.slice(slice_id).void) is None:
                (tps,) = throughputs_tps(run, session.spec, Rounds(change, [slice_id]))
                return tps
        raise TrustError(
            f"{clients} clients, to match another branch: {_TRIES_MAX} measurements in a row were"
            f" void: {void}",
            code="branch-void",
        )
