"""Saved recordings of loads, for more cuts in later drills.

Files in the directory of a recording::

    recording.json      witnesses, names, times, and the server's settings
    base-0, log-0, …    of each disk, that of the data first
    acks/               the ack ledger
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.disk import FileSystem
from pgdyno.drill.power._images import Recorded, RecordedLoad, copy_sparse
from pgdyno.drill.power._location import Names
from pgdyno.drill.witnesses import Witnesses
from pgdyno.errors import UsageError
from pgdyno.spec import Spec

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from pgdyno.drill._drill import LoadedServer

_FACTS = "recording.json"
_LAYOUT = 1


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
