"""A front end before a server with the tables of ``business``, without a load."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from msgspec import Struct

from pgdyno.conduct._fronting import server_of
from pgdyno.conduct._reaching import open_target
from pgdyno.conduct._starting import sweep_servers
from pgdyno.conduct._tables import make_tables
from pgdyno.conduct._target import Target
from pgdyno.conduct.watch import Watcher
from pgdyno.front import FrontEnd, FrontSettings, application_jar, find_java
from pgdyno.front.reading import reading
from pgdyno.results.front import FrontReading
from pgdyno.server import ConnInfo, resolve_conninfo
from pgdyno.spec import Spec
from pgdyno.workload import load_workloads

EVERY_S = 1.0


class Served(Struct, frozen=True):
    """A front end that answers, and its server."""

    front: FrontEnd
    server: ConnInfo
    """As the front end reaches it."""
    started: str | None
    """Version of the server, if pgdyno started it."""
    check: Callable[[], None]
    """Raises RunError if the front end, or a server that pgdyno started, has ended."""

    def readings(self) -> Iterator[FrontReading]:
        """Yield an interval a second. Raises RunError as :attr:`check` does, or if it hangs."""
        first = before = self.front.read()
        due_s = time.monotonic() + EVERY_S
        while True:
            time.sleep(max(0.0, due_s - time.monotonic()))
            due_s = max(due_s, time.monotonic() - EVERY_S) + EVERY_S
            self.check()
            after = self.front.read()
            yield reading(self.front, first, before, after)
            before = after


def serve(
    spec: Spec, settings: FrontSettings, java: str | None, stack: ExitStack, watcher: Watcher
) -> Served:
    """Start a front end before the server of ``spec``, whose workload is ``business``; ``stack``
    ends both when it unwinds. ``java`` is a Java that the user named. Raises SetupError."""
    found = find_java(java)
    jar = application_jar(found, watcher.phase)
    workloads = load_workloads(spec).values()
    sweep_servers(watcher)
    if spec.server.kind == "existing":
        # Before tables are made there: what the front end cannot reach stays as it is.
        settings.properties(resolve_conninfo(spec.server.conninfo))
    with ExitStack() as opening:
        # A server that pgdyno starts stays; of a user's only the lock on the tables is kept, as
        # whoever loads the front end must be able to use the server.
        keep = opening if spec.server.kind == "existing" else stack
        target = open_target(spec, workloads, keep, watcher, may_apply=False)
        server = server_of(target)
        settings.properties(server)
        make_tables(spec, target, workloads, watcher, stack)
    watcher.phase("starting the front end")
    front = FrontEnd(found, jar, server, settings)
    stack.callback(front.close)
    cluster = target.cluster
    version = None if cluster is None else cluster.installation.version
    return Served(front, server, version, lambda: _check(front, target))


def _check(front: FrontEnd, target: Target) -> None:
    front.check()
    if target.cluster is not None:
        target.cluster.check()
