"""``kill``: SIGKILL of all of the server's processes at once, like the crash of a container.

The operating system keeps everything that the server has written.
"""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.drill._crash import crash_cuts
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill.fault import Fault, no_requirements, unchanged_spec
from pgdyno.record.cut import Cut
from pgdyno.server import Cluster


def _cuts(drill: LoadedServer) -> Iterator[Cut]:
    return crash_cuts(drill, Cluster.kill)


FAULT = Fault(
    name="kill",
    summary="SIGKILL of all of the server's processes at once",
    adapt=unchanged_spec,
    check=no_requirements,
    cuts=_cuts,
)
