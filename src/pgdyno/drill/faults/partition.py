"""``partition``: the primary is cut off from its standbys and from the failover manager, but not
from its clients; a standby is promoted.

``fenced``    the old primary is ended before the promotion, as Patroni ends one that cannot renew
              its lock
``unfenced``  it goes on after the promotion until it is ended: what it acknowledges until then is
              on no other server

If Patroni manages the servers, the primary is cut off from their store as well. Patroni then ends
it itself (``fenced``), or, if it hangs, does not (``unfenced``): then only a watchdog would have.
"""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.drill._bounds import of_a_failover
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill._failing_over import Break, Failover, failovers, require_moving, with_standby
from pgdyno.drill.fault import Fault
from pgdyno.drill.model import DrillOptions
from pgdyno.record.cut import Cut
from pgdyno.server import Cluster
from pgdyno.server.replication.patroni import check_cut_off
from pgdyno.spec import Spec

BOTH_S = 1.0
"""Time for which an unfenced primary goes on beside the new one."""


def _check(spec: Spec, options: DrillOptions) -> None:
    require_moving(spec, options)
    if spec.standby.managed:
        check_cut_off()


def _cuts(drill: LoadedServer) -> Iterator[Cut]:
    receivers = drill.receivers
    receivers.arrange(receivers.spec, relayed=True)
    chosen = drill.options.variant
    return failovers(drill, _breaking, tuple(_BREAKS) if chosen is None else (chosen,))


def _breaking(variant: str) -> Break:
    return _BREAKS[variant]


def _fenced(failover: Failover) -> None:
    if (manager := failover.manager) is not None:
        manager.cut_off(failover.primary)
        failover.wait_for_takeover()
        # It may be shutting down still, and wait for standbys that it cannot reach.
        failover.primary.kill()
        return
    failover.cut_off()
    failover.stop_primary(Cluster.kill)
    failover.promote()


def _unfenced(failover: Failover) -> None:
    if (manager := failover.manager) is not None:
        manager.node_of(failover.primary).suspend()
        manager.cut_off(failover.primary)
        failover.wait_for_takeover()
    else:
        failover.cut_off()
        failover.promote()
    failover.drill.session.wait(BOTH_S)
    failover.stop_primary(Cluster.kill)


_BREAKS = {"fenced": _fenced, "unfenced": _unfenced}

FAULT = Fault(
    name="partition",
    summary="the primary is cut off from its standbys and one of them takes over",
    adapt=with_standby,
    check=_check,
    cuts=_cuts,
    variants=tuple(_BREAKS),
    bound=of_a_failover,
    seconds_min=25.0,
    cuts_usual=2,
    managed=True,
)
