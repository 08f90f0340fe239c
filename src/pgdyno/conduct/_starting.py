"""A server that pgdyno starts for a spec: its binaries, the snapshot that it starts from, and
pg_stat_statements, loaded with it and created in its database.

In a database of the user's the extension is never created; there it is read if it is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.conduct.watch import Watcher
from pgdyno.errors import SetupError, UsageError
from pgdyno.server import (
    ConnInfo,
    Installation,
    connect,
    discover_installations,
    find_installation,
    sweep,
)
from pgdyno.server.connecting.complaints import primary
from pgdyno.server.extensions import STATEMENTS
from pgdyno.server.local.owner import make_owner, owner_of
from pgdyno.spec import Spec
from pgdyno.spec.age import PIN_SETTINGS, unfit_setting
from pgdyno.spec.workload import WorkloadSpec

if TYPE_CHECKING:
    from pgdyno.server.local.snapshots import Snapshot

_PRELOAD = "shared_preload_libraries"


def snapshot_of(spec: Spec) -> Snapshot | None:
    """Return the snapshot that a server starts from. Raises UsageError, SetupError."""
    name = spec.server.snapshot
    if name is None:
        return None
    from pgdyno.server.local.snapshots import read_snapshot

    return read_snapshot(name)


def installation_of(spec: Spec) -> Installation:
    """Return the binaries of the server to start: those that the spec names, that wrote its
    snapshot, or the first ones found. Raises UsageError, SetupError."""
    bindir = Path(spec.server.bindir) if spec.server.bindir else None
    version, saved = spec.server.version, snapshot_of(spec)
    if saved is None:
        return find_installation(bindir, version)
    if bindir is None and version is None:
        found = _that_wrote(saved) or find_installation(None, saved.major)
    else:
        found = find_installation(bindir, version)
    from pgdyno.server.local.snapshots import check_fits

    check_fits(saved, found)
    return found


def _that_wrote(saved: Snapshot) -> Installation | None:
    """Return the binaries that wrote a snapshot, also from where only --pg-bindir finds them; None
    if they are gone."""
    known = (each for each in discover_installations() if str(each.bindir) == saved.bindir)
    if (found := next(known, None)) is not None:
        return found if found.major == saved.major else None
    try:
        return find_installation(Path(saved.bindir), saved.major)
    except UsageError:
        return None


def other_binaries(spec: Spec, saved: Snapshot | None, found: Installation) -> str | None:
    """Return a sentence if a server starts from a snapshot with binaries that did not write it, and
    that nobody named; else None."""
    named = spec.server.bindir is not None or spec.server.version is not None
    if saved is None or named or str(found.bindir) == saved.bindir:
        return None
    return (
        f"PostgreSQL {saved.version} in {saved.bindir}, which wrote the snapshot {saved.name}, is"
        f" not there any more: the server is {found.version} in {found.bindir}"
    )


def pins_of(spec: Spec, snapshot: Snapshot | None) -> dict[str, str]:
    """Return the settings without which the server could not keep its age. Raises UsageError."""
    pins = PIN_SETTINGS[spec.server.age[0]] if spec.server.age else {}
    if snapshot is None or snapshot.aged is None:
        return pins
    ids = snapshot.aged
    if unfit := unfit_setting(ids, spec.server.settings, snapshot.major):
        raise UsageError(
            f"the snapshot {snapshot.name} has an age that was raised: {unfit}",
            code="snapshot-settings",
            hint="leave the setting out",
        )
    return {**pins, **PIN_SETTINGS[ids]}


@contextmanager
def saved_data(snapshot: Snapshot | None) -> Iterator[Path | None]:
    """Yield the data directory to copy; None without a snapshot."""
    if snapshot is None:
        yield None
        return
    from pgdyno.server.local.snapshots import opened

    with opened(snapshot.name) as data_dir:
        yield data_dir


def workload_on(snapshot: Snapshot | None, workload: WorkloadSpec) -> WorkloadSpec:
    """Return the workload without the setup whose tables the snapshot has already."""
    if snapshot is None or workload.setup is None:
        return workload
    if setup_digest(workload) != snapshot.setup_sha256:
        return workload
    return workload.model_copy(update={"setup": None, "setup_text": None, "setup_sha256": None})


def setup_digest(workload: WorkloadSpec) -> str | None:
    """Return the digest of the statements of the workload's setup; None without one."""
    if workload.setup is None:
        return None
    from pgdyno.workload.setup import Setup

    return Setup.of(workload).digest


def with_statements(
    spec: Spec, installation: Installation, settings: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings with which a server starts, with pg_stat_statements if it is asked for;
    libraries that are named already are kept. Raises SetupError if the build lacks it."""
    if not spec.server.statements:
        return dict(settings)
    if not installation.has_library(STATEMENTS):
        raise SetupError(
            f"PostgreSQL {installation.version} in {installation.bindir} has no {STATEMENTS}",
            code="no-statements",
            hint="install its contrib modules, name another build with --pg-bindir, or leave"
            " --statements out",
        )
    named = [each.strip() for each in settings.get(_PRELOAD, "").split(",") if each.strip()]
    listed = named if STATEMENTS in named else [*named, STATEMENTS]
    return {**settings, _PRELOAD: ", ".join(listed)}


def create_statements(spec: Spec, server: ConnInfo) -> None:
    """Create the extension in the database of a server of pgdyno's, if it is asked for. Raises
    SetupError."""
    if not spec.server.statements:
        return
    import psycopg

    try:
        with connect(server) as connection:
            connection.execute(
                f"create extension if not exists {STATEMENTS} schema public".encode()
            )
    except psycopg.errors.ProgrammingError as error:  # A function of its name is there.
        raise SetupError(
            f"the extension {STATEMENTS} cannot be created: {primary(error)}",
            code="no-statements",
            hint="have the setup make nothing of its name in the schema public",
        ) from None


def conninfo_of_load(spec: Spec, server: ConnInfo, *, is_new: bool) -> ConnInfo:
    """Return how the load of a spec connects to a server of pgdyno's. One that has the role without
    rights, as its data were saved with it, has what others wrote in its tables: every load on it
    is executed by that role. A new one does not have it."""
    if not spec.workload.superuser:
        return make_owner(server)
    return server if is_new else owner_of(server) or server


def sweep_servers(watcher: Watcher) -> None:
    """Remove the servers of killed runs, with their disks."""
    for line in sweep(_dismantled):
        watcher.note(line)


def _dismantled(directory: Path) -> list[str]:
    """Release the disks of a killed run's server; hardly any run finds one."""
    from pgdyno.disk import dismantle

    return dismantle(directory)
