"""``switchover``: the primary is shut down under load, which sends all of its WAL to the standbys,
and then one of them is promoted. Where Patroni manages them, it is asked to do so."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.drill._bounds import of_a_switchover
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill._failing_over import Failover, failovers, require_moving, with_standby
from pgdyno.drill.fault import Fault
from pgdyno.record.cut import Cut


def _cuts(drill: LoadedServer) -> Iterator[Cut]:
    return failovers(drill, lambda _variant: _break, ("",))


def _break(failover: Failover) -> None:
    failover.switch_over()


FAULT = Fault(
    name="switchover",
    summary="the primary is shut down and a standby takes over",
    adapt=with_standby,
    check=require_moving,
    cuts=_cuts,
    bound=of_a_switchover,
    seconds_min=15.0,
    cuts_usual=3,
    managed=True,
)
