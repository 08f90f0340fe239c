"""``immediate``: ``pg_ctl stop -m immediate``, which PostgreSQL documents as a crash.

The server ends at once and recovers at its next start.
"""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.drill._crash import crash_cuts
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill.fault import Fault, no_requirements, unchanged_spec
from pgdyno.record.cut import Cut


def _cuts(drill: LoadedServer) -> Iterator[Cut]:
    return crash_cuts(
        drill,
        lambda cluster: cluster.stop("immediate"),
        log_words="received immediate shutdown request",
    )


FAULT = Fault(
    name="immediate",
    summary="an immediate shutdown, as with pg_ctl stop -m immediate",
    adapt=unchanged_spec,
    check=no_requirements,
    cuts=_cuts,
)
