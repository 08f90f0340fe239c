"""The procedure of ``pgdyno snapshot save``: a server that pgdyno starts is loaded or aged, then
stopped, and its data are copied."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from pgdyno.conduct import (
    Session,
    Target,
    Watcher,
    check_age_kept,
    grow_old,
    installation_of,
    prepared_server,
    rows_of,
    setup_digest,
)
from pgdyno.disk import sync_mount
from pgdyno.errors import UsageError
from pgdyno.scenario.age import parse_age
from pgdyno.server import Cluster, connect
from pgdyno.server.local.aging import read_ages
from pgdyno.server.local.safefiles import directory_bytes
from pgdyno.server.local.snapshots import Snapshot, UnfinishedSnapshot, complete
from pgdyno.spec import Spec
from pgdyno.spec.age import PIN_SETTINGS, Ids


class SnapshotRequest(Struct, frozen=True):
    """Request for a snapshot."""

    spec: Spec
    loaded: bool
    """Under load before it is saved."""
    age: tuple[Ids, int] | None


def request_of(spec: Spec, *, loaded: bool, age: str | None, multixact: bool) -> SnapshotRequest:
    """Return the request, with a spec whose server can be brought to the age at the end.

    Raises UsageError for a server of the user's, and for what excludes it.
    """
    if spec.server.kind == "existing":
        raise UsageError(
            "pgdyno snapshot saves only servers that pgdyno starts: it stops the server to copy its"
            " data",
            code="snapshot-own-server",
            hint="leave the connection out; --from copies a database of your server",
        )
    if spec.standby.receivers:
        raise UsageError(
            "a snapshot has no standbys: their slots would keep WAL that nobody fetches",
            code="snapshot-standby",
            hint="leave standby out here, and use it where a server starts from the snapshot",
        )
    if multixact and age is None:
        raise UsageError(
            "--multixact is about the age, and --age is missing",
            code="contradiction",
            hint="for example --age 1.7e9 --multixact",
        )
    wanted = spec.server.age
    if age is not None:
        wanted = ("mxid" if multixact else "xid", parse_age(age, "--age"))
    if wanted is None:
        return SnapshotRequest(spec, loaded, None)
    check_age_kept(spec, wanted[0])
    settings = {**PIN_SETTINGS[wanted[0]], **spec.server.settings}
    server = {"settings": settings, "xid_age": None, "mxid_age": None}
    spec = spec.model_copy(update={"server": spec.server.model_copy(update=server)})
    return SnapshotRequest(spec, loaded, wanted)


class Saved(Struct, frozen=True):
    """A snapshot that was saved, and how."""

    snapshot: Snapshot
    seconds: float
    """Time to copy the data of the stopped server."""
    cloned: bool
    """The copy shares its blocks with the server's data."""


def save_tables(place: UnfinishedSnapshot, request: SnapshotRequest, watcher: Watcher) -> Saved:
    """Save a server with its tables, without a load. Raises SetupError."""
    with prepared_server(request.spec, watcher) as (target, scale):
        if request.age is not None:
            grow_old(target, watcher, *request.age)
        watcher.phase("saving the state")
        described = describe(place.name, request.spec.with_scale(scale), target, request)
        cluster_of(target).stop()
        return take(place, described, cluster_of(target))


def save_loaded(place: UnfinishedSnapshot, request: SnapshotRequest, session: Session) -> Saved:
    """Save the server of a session whose load has ended. Raises SetupError."""
    if request.age is not None:
        session.grow_old(*request.age)
    session.watcher.phase("saving the state")
    load_s = (session.spec.load.ramp_ms + session.spec.load.hold_ms) / 1000
    described = describe(place.name, session.spec, session.target, request)
    described = replace(described, load_s=load_s, run_file=str(session.recorder.path.absolute()))
    with session.server_down():
        return take(place, described, cluster_of(session.target))


def cluster_of(target: Target) -> Cluster:
    """Return the server of a target, which pgdyno started."""
    assert target.cluster is not None, "the server is not pgdyno's"
    return target.cluster


def take(place: UnfinishedSnapshot, described: Snapshot, cluster: Cluster) -> Saved:
    """Copy the data of the stopped server, and name the snapshot once they are on the disk."""
    began_s = time.monotonic()
    cloned = place.clones(cluster.data_dir)
    place.take(cluster.data_dir)
    sync_mount(place.directory)
    seconds = time.monotonic() - began_s
    snapshot = replace(described, bytes=directory_bytes(place.data_dir))
    complete(place, snapshot)
    return Saved(snapshot, round(seconds, 3), cloned)


def describe(name: str, spec: Spec, target: Target, request: SnapshotRequest) -> Snapshot:
    """Return the snapshot of the running server, without the size of its data."""
    build = installation_of(spec)
    with connect(target.conninfo) as conn:
        ages = read_ages(conn)
    before = target.snapshot
    return Snapshot(
        name=name,
        saved_at=datetime.now(UTC).isoformat(timespec="seconds"),
        version=build.version,
        version_num=build.version_num,
        bindir=str(build.bindir),
        capabilities=build.capabilities,
        bytes=0,
        workload=_scripts(spec),
        scale=spec.workload.scale,
        rows=rows_of(target.conninfo),
        load_s=0.0,
        run_file=None,
        aged=request.age[0] if request.age else before.aged if before else None,
        xid_age=ages.xid,
        mxid_age=ages.mxid,
        parent=before.name if before else None,
        setup_sha256=setup_digest(spec.workload) or (before.setup_sha256 if before else None),
        origin=before.origin if before else None,
    )


def _scripts(spec: Spec) -> tuple[str, ...]:
    """Return the names of the scripts, once each."""
    names: dict[str, None] = {}
    for group in spec.clients:
        mix = spec.mix_of(group)
        parts = [mix] if isinstance(mix, str) else [each.builtin or each.file for each in mix]
        names |= {Path(each).name: None for each in parts if each}
    return tuple(names)
