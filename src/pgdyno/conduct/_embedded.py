"""The start of an embedded server, with its disks and standbys; it exists as long as the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pgdyno.conduct._connection_room import check_connections
from pgdyno.conduct._entrance import in_front
from pgdyno.conduct._starting import (
    conninfo_of_load,
    installation_of,
    other_binaries,
    pins_of,
    saved_data,
    snapshot_of,
    with_statements,
)
from pgdyno.conduct._target import Target
from pgdyno.conduct.watch import Watcher
from pgdyno.disk import OpenDisks, open_disks
from pgdyno.errors import SetupError
from pgdyno.pooler import server_connections
from pgdyno.record.facts import ServerFacts
from pgdyno.server import Cluster, SessionSettings, Settings, server_facts
from pgdyno.server.local.layout import has_kept_data
from pgdyno.server.replication.patroni import PASSED_ON, check_programs
from pgdyno.server.replication.receivers import Receivers
from pgdyno.spec import Spec

# Settings of an embedded server in addition to the spec's: timings that the diagnosis reads. They
# cost a clock read per I/O, under 30 ns on current machines.
EMBEDDED_SETTINGS = {"track_io_timing": "on", "track_wal_io_timing": "on"}
# Connections of a pooler that an embedded server has room for, so that larger pools can be tried.
_POOLED_CONNECTIONS_MAX = 200
# Connections in addition to the clients': probes, control, the server's reserve, the user's own.
_OTHER_CONNECTIONS = 20
_MAX_CONNECTIONS_DEFAULT = 100


def _connections_needed(spec: Spec) -> int:
    """Return the most connections that the server may have at once, without pools of clients."""
    if spec.front is not None:
        return max(spec.front.connections_max, sum(group.count for group in spec.clients))
    clients = sum(group.count for group in spec.clients)
    if not spec.pooler.in_use:
        return clients
    return max(server_connections(spec), min(clients, _POOLED_CONNECTIONS_MAX))


@contextmanager
def _beside_run_file(keep_dir: Path | None) -> Iterator[None]:
    """Correct hints: where the directory of a kept server is depends on the run file alone."""
    try:
        yield
    except SetupError as problem:
        if keep_dir and problem.place and problem.place.is_relative_to(keep_dir):
            problem.hint = (
                "the server's data are beside the run file: name one with -o in a directory"
                " of yours, with enough space, that the server's account can enter"
            )
        raise


def start_embedded(spec: Spec, stack: ExitStack, watcher: Watcher, keep_dir: Path | None) -> Target:
    """Start the server of a spec; ``keep_dir`` is the directory of one whose data stay there."""
    if spec.standby.managed:
        check_programs()
    installation = installation_of(spec)
    watcher.phase(f"starting PostgreSQL {installation.version}")
    snapshot = snapshot_of(spec)
    if other := other_binaries(spec, snapshot, installation):
        watcher.note(f"warning: {other}")
    settings = with_statements(
        spec,
        installation,
        {**EMBEDDED_SETTINGS, **pins_of(spec, snapshot), **spec.server.settings},
    )
    if "max_connections" not in settings:
        wanted = _connections_needed(spec) * 2 + _OTHER_CONNECTIONS
        settings["max_connections"] = str(max(_MAX_CONNECTIONS_DEFAULT, wanted))
    opened: list[OpenDisks] = []

    def disks(directory: Path) -> OpenDisks:
        opened.append(open_disks(spec.disk)(directory))
        return opened[0]

    begins = keep_dir is None or not has_kept_data(keep_dir)
    with _beside_run_file(keep_dir), saved_data(snapshot if begins else None) as source:
        cluster = Cluster.create(
            installation,
            settings,
            keep_dir=keep_dir,
            begins=keep_dir is not None and begins,
            disks=None if keep_dir else disks,
            checksums=spec.server.checksums,
            source=source,
        )
        stack.enter_context(cluster)
    receivers = Receivers(cluster)
    stack.callback(receivers.close)
    for note in (note for each in opened for note in each.notes):
        watcher.note(note)
    conninfo = cluster.conninfo
    of_load = conninfo_of_load(spec, conninfo, is_new=begins and snapshot is None)
    facts: ServerFacts = {
        **server_facts(conninfo),
        "superuser": of_load is conninfo,
        "kind": "embedded",
        "installation": installation.source,
        "snapshot": snapshot.name if snapshot else None,
        "entrance_uri": None,
        "database_named": None,
    }
    check_connections(spec, facts, conninfo)
    gateway = in_front(spec, of_load, stack, watcher)
    facts["pooler"] = gateway.facts()
    return Target(
        server=conninfo,
        gateway=gateway,
        users_pooler=None,
        server_settings=Settings(conninfo, passed_on=PASSED_ON),
        facts=facts,
        cluster=cluster,
        disks=opened[0] if opened else None,
        snapshot=snapshot,
        receivers=receivers,
        sessions=None
        if spec.pooler.in_use or spec.http is not None
        else SessionSettings(of_load, outweighed_only=True),
        load_user=None if of_load is conninfo else of_load.user,
        _gateway_of=cluster.pid,
    )
