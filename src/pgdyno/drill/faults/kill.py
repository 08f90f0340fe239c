"""``kill``: SIGKILL of all of the server's processes at once, as the kernel's OOM killer or a crash
of the container would. What the operating system has been given is kept."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.drill._crash import crash_cuts
from pgdyno.drill._drill import Drill
from pgdyno.drill.fault import Fault, as_it_is, nothing_to_check
from pgdyno.drill.model import Cut
from pgdyno.server import Cluster


def _cuts(drill: Drill) -> Iterator[Cut]:
    return crash_cuts(drill, Cluster.kill)


FAULT = Fault(
    name="kill",
    summary="SIGKILL of all of the server's processes at once",
    adapt=as_it_is,
    check=nothing_to_check,
    cuts=_cuts,
)
