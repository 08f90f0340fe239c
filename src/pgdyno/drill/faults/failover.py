"""``failover``: SIGKILL of all of the primary's processes under load.

Once that is detected, a standby is promoted, and the clients find it. If Patroni manages the
servers, its process beside the primary is killed as well, and the lock of the leader expires.
"""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.drill._bounds import of_a_failover
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill._failing_over import Failover, failovers, require_moving, with_standby
from pgdyno.drill.fault import Fault
from pgdyno.record.cut import Cut
from pgdyno.server import Cluster


def _cuts(drill: LoadedServer) -> Iterator[Cut]:
    return failovers(drill, lambda _variant: _break, ("",))


def _break(failover: Failover) -> None:
    failover.stop_primary(Cluster.kill)
    failover.replace_primary()


FAULT = Fault(
    name="failover",
    summary="the primary crashes and a standby takes over",
    adapt=with_standby,
    check=require_moving,
    cuts=_cuts,
    bound=of_a_failover,
    seconds_min=20.0,
    cuts_usual=3,
    managed=True,
)
