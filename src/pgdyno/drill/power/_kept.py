"""Recorded loads that are kept, so that more cuts can be made of them later.

A folder::

    recording.json      what the disks do not tell: witnesses, names, times, the server's settings
    base-0, log-0, …    of each disk, that of the data first
    acks/               the clients' record
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.disk import FileSystem
from pgdyno.drill.power._images import Recorded, copy_sparse
from pgdyno.drill.power._loaded import RecordedLoad
from pgdyno.drill.power._names import Names
from pgdyno.drill.witnesses import Witnesses
from pgdyno.errors import UsageError
from pgdyno.spec import Spec

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from pgdyno.drill._drill import Drill

_FACTS = "recording.json"
_LAYOUT = 1


@dataclass(frozen=True)
class _Facts:
    """What ``recording.json`` says."""

    layout: int
    version: str
    settings: Mapping[str, str]
    load: Mapping[str, str]
    """What was loaded, by the spec's keys."""
    fs: tuple[FileSystem, ...]
    load_began_ns: int
    marks_ns: tuple[int, ...]
    names: Names
    witnesses: Witnesses


def is_kept(folder: Path) -> bool:
    """Whether there is a recording in ``folder``; UsageError when something else is."""
    if (folder / _FACTS).exists():
        return True
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder} holds no recording, and is not empty",
            code="recording",
            hint="name a folder that is not there yet, to keep the recording of this drill",
        )
    return False


def keep(load: RecordedLoad, drill: Drill, logs: list[Path], folder: Path) -> None:
    """Copy what was recorded to ``folder``; the facts go last, so that they prove it whole."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_own(folder)
    except OSError as error:
        raise UsageError(
            f"cannot make the folder {folder}: {error.strerror}", code="recording"
        ) from None
    for number, (base, log) in enumerate(zip(load.disks.bases, logs, strict=True)):
        copy_sparse(base, folder / f"base-{number}")
        copy_sparse(log, folder / f"log-{number}")
    shutil.copytree(drill.acks_folder(), folder / "acks")
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
    (folder / _FACTS).write_bytes(_adapter().dump_json(facts))


def _require_own(folder: Path) -> None:
    if folder.stat().st_uid != os.geteuid():
        raise UsageError(
            f"the folder {folder} belongs to another user",
            code="recording",
            hint="name one of your own, or one that is not there yet",
        )


def take_up(drill: Drill, folder: Path) -> RecordedLoad:
    """The load that was kept in ``folder``; UsageError when it was of another server than this."""
    from pgdyno._engine import DiskLogs
    from pgdyno.record import read_acks

    facts = _read(folder)
    _require_same(facts, drill, folder)
    numbers = range(len(facts.fs))
    logs = DiskLogs([folder / f"log-{number}" for number in numbers])
    drill.witnesses = facts.witnesses
    drill.load_began_ns = facts.load_began_ns
    return RecordedLoad(
        disks=Recorded(logs, [folder / f"base-{number}" for number in numbers], facts.fs),
        acks=read_acks(folder / "acks"),
        names=facts.names,
        marks_ns=facts.marks_ns,
    )


def _read(folder: Path) -> _Facts:
    try:
        return _adapter().validate_json((folder / _FACTS).read_bytes())
    except (OSError, ValueError):
        raise UsageError(f"the recording in {folder} cannot be read", code="recording") from None


def _require_same(facts: _Facts, drill: Drill, folder: Path) -> None:
    here: dict[str, object] = {"PostgreSQL": drill.cluster.installation.version}
    there: dict[str, object] = {"PostgreSQL": facts.version}
    here |= {**drill.cluster.settings, **_load_of(drill.session.spec)}
    there |= {**facts.settings, **facts.load}
    for name in sorted(here.keys() | there.keys()):
        if here.get(name) != there.get(name):
            raise UsageError(
                f"the recording in {folder} was made with {name} {there.get(name, 'not set')};"
                f" here it is {here.get(name, 'not set')}",
                code="recording",
                hint="cuts of a recording need the server, the load and the --set of the drill that"
                " made it",
            )


def _load_of(spec: Spec) -> dict[str, str]:
    """What is loaded, and where it lies: what a result says of its cuts has to be true of them."""
    fields = spec.model_dump(mode="json", exclude_none=True)
    found = {f"workload.{key}": value for key, value in fields["workload"].items()}
    for group in fields["clients"]:
        found |= {f"clients.{group['name']}.{key}": value for key, value in group.items()}
    found |= {f"disk.{key}": value for key, value in fields["disk"].items()}
    return {key: str(value) for key, value in found.items()}


def _adapter() -> TypeAdapter[_Facts]:
    from pydantic import TypeAdapter

    return TypeAdapter(_Facts)
