"""Recordings of the disks during one load, with checkpoints; saved ones serve later drills.

Files in the directory of a recording::

    recording.json      witnesses, names, times, and the server's settings
    base-0, log-0, …    of each disk, that of the data first
    acks/               the ack ledger
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.disk import FileSystem
from pgdyno.drill._evidence import disturbed_from_outside
from pgdyno.drill.power._images import Recorded, RecordedLoad, copy_sparse
from pgdyno.drill.power._location import Names, read_names
from pgdyno.drill.witnesses import Witnesses
from pgdyno.errors import UsageError
from pgdyno.spec import Spec

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from pgdyno.disk import EmulatedDevice
    from pgdyno.drill._drill import LoadedServer


LOAD_S = 5.0
"""Default duration of the recorded load."""
CHECKPOINT_EVERY_S = 0.9
"""Interval of checkpoints: most writes are pending during one, so a load includes several."""
_FACTS = "recording.json"
_LAYOUT = 1


def recorded_load(drill: LoadedServer) -> RecordedLoad:
    """Return a recorded load, and stop the server.

    The load is read from the directory of the option ``recording`` if that has one, and otherwise
    recorded now, and saved there if the option is given.
    """
    option = drill.options.recording
    directory = Path(option).expanduser() if option else None
    if directory and is_recording(directory):
        drill.begin_outage()
        drill.cluster.stop()
        return load_recording(drill, directory)
    load = _record(drill)
    if directory:
        logs = [each.log for each in _devices(drill) if each.log]
        save_recording(load, drill, logs, directory)
    return load


def _record(drill: LoadedServer) -> RecordedLoad:
    """Run the load with recorded disks; then end the recording and stop the server.

    The recording starts after the load, so that no cut is before it. In a sham it ends after the
    server has shut down and everything is flushed.
    """
    devices = _devices(drill)
    drill.session.watcher.phase("recording the disks under load")
    drill.begin_load()
    for device in devices:
        device.start_recording()
    marks_ns = _load_with_checkpoints(drill)
    with drill.session.connect() as conn:
        names = read_names(conn)
    drill.begin_outage()
    acks = drill.end_load()
    if drill.options.sham:
        drill.cluster.stop()
        for device in devices:
            device.sync()
    for device in devices:
        device.stop_recording()
    drill.cluster.kill()
    if drill.disturbed or drill.cluster.ended_by:
        drill.look_for_kills()
        raise disturbed_from_outside(drill.disturbed)
    return RecordedLoad(_recorded(devices), acks, names, marks_ns)


def _devices(drill: LoadedServer) -> list[EmulatedDevice]:
    """Return the recording disks of the server, that of the data first."""
    disks = drill.session.target.disks
    assert disks is not None, "a server started by pgdyno has disks"
    devices = disks.recorded
    if not devices:
        raise UsageError("the data is not on a recording disk", code="bad-disk")
    return devices


def _load_with_checkpoints(drill: LoadedServer) -> list[int]:
    """Wait for the end of the load, with checkpoints; return their starts and ends."""
    session, marks_ns = drill.session, []
    ends_s = time.monotonic() + (drill.options.load_s or LOAD_S)
    with session.connect() as conn:
        while (left_s := ends_s - time.monotonic()) > 0:
            session.wait(min(CHECKPOINT_EVERY_S, left_s))
            marks_ns.append(time.monotonic_ns())
            conn.execute("checkpoint")
            marks_ns.append(time.monotonic_ns())
    return marks_ns


def _recorded(devices: Sequence[EmulatedDevice]) -> Recorded:
    from pgdyno._engine import DiskLogs

    logs = DiskLogs([device.log for device in devices if device.log])
    return Recorded(logs, [device.base for device in devices], [device.fs for device in devices])


@dataclass(frozen=True)
class _Facts:
    """Content of ``recording.json``."""

    layout: int
    version: str
    settings: Mapping[str, str]
    load: Mapping[str, str]
    """Key of the spec → value, of the keys that describe the load."""
    fs: tuple[FileSystem, ...]
    load_began_ns: int
    marks_ns: tuple[int, ...]
    names: Names
    witnesses: Witnesses


def is_recording(directory: Path) -> bool:
    """True if ``directory`` has a recording. UsageError if it has other files."""
    if (directory / _FACTS).exists():
        return True
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(
            f"{directory} is not empty, and has no recording",
            code="recording",
            hint="to save the recording of this drill, name a directory that does not exist yet",
        )
    return False


def save_recording(
    load: RecordedLoad, drill: LoadedServer, logs: list[Path], directory: Path
) -> None:
    """Copy a recording to ``directory``, ``recording.json`` last: with it, the copy is complete."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_own(directory)
    except OSError as error:
        raise UsageError(
            f"cannot create the directory {directory}: {error.strerror}", code="recording"
        ) from None
    for number, (base, log) in enumerate(zip(load.disks.bases, logs, strict=True)):
        copy_sparse(base, directory / f"base-{number}")
        copy_sparse(log, directory / f"log-{number}")
    shutil.copytree(drill.acks_directory(), directory / "acks")
    facts = _Facts(
        layout=_LAYOUT,
        version=drill.cluster.installation.version,
        settings=drill.cluster.settings,
        load=_load_of(drill.session.spec),
        fs=tuple(load.disks.fs),
        load_began_ns=drill.load_began_ns,
        marks_ns=tuple(load.marks_ns),
        names=load.names,
        witnesses=drill.witnesses,
    )
    (directory / _FACTS).write_bytes(_adapter().dump_json(facts))


def _require_own(directory: Path) -> None:
    if directory.stat().st_uid != os.geteuid():
        raise UsageError(
            f"the directory {directory} belongs to another user",
            code="recording",
            hint="name a directory of your own, or one that does not exist yet",
        )


def load_recording(drill: LoadedServer, directory: Path) -> RecordedLoad:
    """Return the recorded load in ``directory``. UsageError if it is of another server or load."""
    from pgdyno._engine import DiskLogs
    from pgdyno.record import read_acks

    facts = _read(directory)
    _require_same(facts, drill, directory)
    numbers = range(len(facts.fs))
    logs = DiskLogs([directory / f"log-{number}" for number in numbers])
    drill.witnesses = facts.witnesses
    drill.load_began_ns = facts.load_began_ns
    return RecordedLoad(
        disks=Recorded(logs, [directory / f"base-{number}" for number in numbers], facts.fs),
        acks=read_acks(directory / "acks"),
        names=facts.names,
        marks_ns=facts.marks_ns,
    )


def _read(directory: Path) -> _Facts:
    try:
        return _adapter().validate_json((directory / _FACTS).read_bytes())
    except (OSError, ValueError):
        raise UsageError(f"the recording in {directory} cannot be read", code="recording") from None


def _require_same(facts: _Facts, drill: LoadedServer, directory: Path) -> None:
    here: dict[str, object] = {"PostgreSQL": drill.cluster.installation.version}
    there: dict[str, object] = {"PostgreSQL": facts.version}
    here |= {**drill.cluster.settings, **_load_of(drill.session.spec)}
    there |= {**facts.settings, **facts.load}
    for name in sorted(here.keys() | there.keys()):
        if here.get(name) != there.get(name):
            raise UsageError(
                f"the recording in {directory} was made with {name} {there.get(name, 'not set')};"
                f" here it is {here.get(name, 'not set')}",
                code="recording",
                hint="use the server, the load and the --set options of the drill that made the"
                " recording",
            )


def _load_of(spec: Spec) -> dict[str, str]:
    """Return the keys of the spec that must be those of the recording: workload, clients, disks."""
    fields = spec.model_dump(mode="json", exclude_none=True)
    found = {f"workload.{key}": value for key, value in fields["workload"].items()}
    for group in fields["clients"]:
        found |= {f"clients.{group['name']}.{key}": value for key, value in group.items()}
    found |= {f"disk.{key}": value for key, value in fields["disk"].items()}
    return {key: str(value) for key, value in found.items()}


def _adapter() -> TypeAdapter[_Facts]:
    from pydantic import TypeAdapter

    return TypeAdapter(_Facts)
