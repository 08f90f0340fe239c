"""``immediate``: ``pg_ctl stop -m immediate``. PostgreSQL documents it as a crash: the server ends
at once and recovers when it is started."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.drill._crash import crash_cuts
from pgdyno.drill._drill import Drill
from pgdyno.drill.fault import Fault, as_it_is, nothing_to_check
from pgdyno.drill.model import Cut


def _cuts(drill: Drill) -> Iterator[Cut]:
    return crash_cuts(
        drill,
        lambda cluster: cluster.stop("immediate"),
        says="received immediate shutdown request",
    )


FAULT = Fault(
    name="immediate",
    summary="an immediate shutdown, as pg_ctl stop -m immediate",
    adapt=as_it_is,
    check=nothing_to_check,
    cuts=_cuts,
)
