"""Snapshots: named states of servers that pgdyno started, from which others start.

They are in a directory of pgdyno, which the account of servers only passes through::

    snapshots/.lock            held while a name is taken, given or looked up
    snapshots/NAME/            a complete snapshot; nothing in it is written any more
        snapshot.json          what it is of
        lock                   held while it is copied (shared) or removed
        data/                  the data directory (mode 0700, owned by the account)
    snapshots/.NAME.part/      one that is being saved or removed; ``lock`` is held as long

A snapshot gets its name by one rename, so that an interrupted save leaves none. What a killed
pgdyno left has a free lock and is removed by :func:`sweep_snapshots`, as servers are.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated

from msgspec import Struct
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from pgdyno.errors import SetupError, UsageError
from pgdyno.server.directories import shared_directory, snapshots_dir, state_home
from pgdyno.server.local._installation import Installation
from pgdyno.server.local.account import require_reach
from pgdyno.server.local.layout import copy_data_directory, refuse_link
from pgdyno.server.local.leftovers import end_helpers
from pgdyno.server.local.safefiles import can_clone, remove_own_directory, write_own
from pgdyno.server.locks import locked, try_lock
from pgdyno.server.versions import SUPPORTED_MAJORS
from pgdyno.spec.age import Ids
from pgdyno.spec.server import NAME, NAME_MAX

FILE = "snapshot.json"
_DAYS_MAX = 36_500
_LISTED = "pgdyno snapshot list shows what there is"
_STORED_BY = ("lz4", "icu")
"""Capabilities of a build that stored data may need: compressed values, collations."""


def _time(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without its zone")
    return text


_Count = Annotated[int, Field(ge=0, lt=1 << 63)]
_IdAge = Annotated[int, Field(ge=0, lt=1 << 31)]
_Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class CopiedDatabase:
    """The database of a user's server that was copied."""

    database: str
    uri: str
    """Without a password."""
    version: str
    """Of its server."""


@dataclass(frozen=True)
class Snapshot:
    """Description of a snapshot."""

    name: str
    saved_at: Annotated[str, AfterValidator(_time)]
    """UTC, in ISO 8601"""
    version: Annotated[str, Field(pattern=r"^\d+(\.\d+)?(devel|beta\d+|rc\d+)?$")]
    version_num: Annotated[int, Field(ge=10_000 * SUPPORTED_MAJORS[0], lt=1_000_000)]
    bindir: _Text
    capabilities: dict[str, bool]
    """Of the build that wrote it."""
    bytes: _Count
    """Size on disk, without blocks that it shares with other files."""
    workload: tuple[str, ...]
    scale: Annotated[int, Field(ge=1, le=100_000)]
    rows: dict[str, _Count]
    load_s: Annotated[float, Field(ge=0, le=86_400 * _DAYS_MAX, allow_inf_nan=False)]
    """Time under load before it was saved."""
    run_file: _Text | None
    """Run file of that load."""
    aged: Ids | None
    """The IDs whose age was raised."""
    xid_age: _IdAge
    mxid_age: _IdAge
    parent: _Text | None
    """The snapshot that its server had started from."""
    setup_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None
    """Digest of the statements of workload.setup, which made some of its tables."""
    origin: CopiedDatabase | None = None
    """The database of which it, or the first of its parents, is a copy."""

    @property
    def major(self) -> int:
        """The major version of PostgreSQL."""
        return self.version_num // 10_000

    def to_json(self) -> dict[str, object]:
        """Return it as its file has it, and ``pgdyno snapshot list --format json`` prints it."""
        return asdict(self)


@dataclass(frozen=True)
class Damage:
    """Reason why a snapshot cannot be used: the file, and in it the key."""

    why: str


def read_description(directory: Path) -> Snapshot | Damage:
    """Return the description of the snapshot in ``directory``, or the damage to it."""
    path = directory / FILE
    try:
        snapshot = _snapshots().validate_json(path.read_bytes(), strict=True)
    except OSError as problem:
        return Damage(f"{path}: {problem.strerror}")
    except ValidationError as problem:
        return Damage(f"{path}: {_first(problem)}")
    if snapshot.name != directory.name:
        return Damage(f"{path}: name: it is that of another snapshot")
    if not (directory / "data").is_dir():
        return Damage(f"{directory / 'data'} is missing")
    return snapshot


def _first(problem: ValidationError) -> str:
    """Return the first error, with its key."""
    error = problem.errors(include_url=False, include_input=False)[0]
    said = error["msg"].removeprefix("Input ").removeprefix("Value error, ")
    key = ".".join(str(part) for part in error["loc"])
    return f"{key}: {said}" if key else said


@cache
def _snapshots() -> TypeAdapter[Snapshot]:
    return TypeAdapter(Snapshot)


class UnfinishedSnapshot(Struct, frozen=True):
    """The directory of a snapshot that is being saved."""

    name: str
    directory: Path

    @property
    def data_dir(self) -> Path:
        """The data directory, once it is copied."""
        return self.directory / "data"

    def clones(self, source: Path) -> bool:
        """Return whether a copy of ``source``, a directory of the account, shares its blocks."""
        return can_clone(source, self.directory)

    def take(self, source: Path) -> None:
        """Copy the data directory of a stopped server. Raises SetupError."""
        copy_data_directory(source, self.data_dir)


def check_name(name: str) -> None:
    """Raise UsageError for a text that cannot be the name of a snapshot."""
    if len(name) > NAME_MAX or not re.fullmatch(NAME, name):
        raise UsageError(
            f'"{name}" cannot be the name of a snapshot',
            code="snapshot-name",
            hint="letters, digits, dots, hyphens and underscores, beginning with a letter or a"
            f" digit, up to {NAME_MAX} characters",
        )


@contextmanager
def saving(name: str) -> Iterator[UnfinishedSnapshot]:
    """Reserve a name, and give what is put into the place that name at :func:`complete`; without it
    nothing is left. Raises UsageError for a name that is taken."""
    check_name(name)
    home = snapshots_dir()
    part = _part(home, name)
    with locked(home / ".lock"):
        if os.path.lexists(home / name):
            raise UsageError(
                f"there is a snapshot {name} already",
                code="snapshot-exists",
                hint=f"choose another name, or pgdyno snapshot remove {name}",
            )
        _clear(part)
        shared_directory(part)
        lock = try_lock(part / "lock")
        assert lock is not None, "nobody else takes it without the lock of the directory"
    try:
        require_reach(part)
        yield UnfinishedSnapshot(name, part)
    finally:
        if part.exists():
            remove_own_directory(part)
        os.close(lock)


def complete(place: UnfinishedSnapshot, snapshot: Snapshot) -> None:
    """Describe a snapshot whose data are there, and give it its name."""
    write_own(place.directory / FILE, json.dumps(snapshot.to_json(), indent=2))
    with locked(snapshots_dir() / ".lock"):
        place.directory.rename(place.directory.parent / place.name)


@contextmanager
def opened(name: str) -> Iterator[Path]:
    """Return the data directory of a snapshot, which is not removed within the block."""
    with ExitStack() as stack:
        home = snapshots_dir()
        with locked(home / ".lock"):
            directory = _found(home, name)
            stack.enter_context(locked(directory / "lock", shared=True))
        yield directory / "data"


def read_snapshot(name: str) -> Snapshot:
    """Return a snapshot by its name. Raises UsageError if there is none, SetupError if its
    description or its data cannot be read."""
    found = read_description(_found(snapshots_dir(), name))
    if isinstance(found, Damage):
        raise SetupError(
            f"the snapshot {name} is damaged: {found.why}",
            code="snapshot-damaged",
            hint=f"pgdyno snapshot remove {name}",
        )
    return found


def list_snapshots() -> list[tuple[str, Snapshot | Damage]]:
    """Return the snapshots by name."""
    home = snapshots_dir()
    return [(name, read_description(home / name)) for name in _names(home)]


def remove_snapshot(name: str) -> None:
    """Remove a snapshot. Raises UsageError if there is none, SetupError if it is being copied."""
    home = snapshots_dir()
    part = _part(home, name)
    with locked(home / ".lock"):
        directory = _found(home, name)
        lock = try_lock(directory / "lock")
        if lock is None:
            raise SetupError(
                f"a server is just starting from the snapshot {name}",
                code="snapshot-in-use",
                hint="try again in a moment: only its start needs the snapshot",
            )
        try:
            _clear(part)
            directory.rename(part)
        except BaseException:
            os.close(lock)
            raise
    try:
        _remove(part)
    finally:
        os.close(lock)


def check_fits(snapshot: Snapshot, installation: Installation) -> None:
    """Raise UsageError if the binaries cannot serve a snapshot."""
    named = f"--pg-bindir {snapshot.bindir} has the binaries that wrote it"
    if snapshot.major != installation.major:
        raise UsageError(
            f"the snapshot {snapshot.name} is of PostgreSQL {snapshot.version}, and the server to"
            f" start is {installation.version}",
            code="snapshot-version",
            hint=named,
        )
    lacking = [
        each
        for each in _STORED_BY
        if snapshot.capabilities.get(each) and not installation.capabilities.get(each)
    ]
    if lacking:
        raise UsageError(
            f"the snapshot {snapshot.name} was written by a build of PostgreSQL with"
            f" {' and '.join(lacking)}, which the one in {installation.bindir} lacks: its data may"
            " need it",
            code="snapshot-build",
            hint=named,
        )


def sweep_snapshots() -> list[str]:
    """Remove snapshots that a killed pgdyno left incomplete; return a sentence for each."""
    home = state_home() / "snapshots"
    if not home.is_dir():
        return []
    done = []
    with locked(home / ".lock"):
        for part in sorted(home.glob(".*.part")):
            lock = try_lock(part / "lock") if not part.is_symlink() else None
            if lock is None:
                continue
            try:
                _remove(part)
                done.append(f"removed a snapshot that was not saved completely, in {part}")
            except SetupError as problem:
                done.append(problem.message)
            finally:
                os.close(lock)
    return done


def _part(home: Path, name: str) -> Path:
    return home / f".{name}.part"


def _clear(part: Path) -> None:
    """Remove the files of a killed pgdyno. Raises UsageError if a living one is at work there."""
    if not os.path.lexists(part):
        return
    refuse_link(part)
    lock = try_lock(part / "lock")
    if lock is None:
        name = part.name.removeprefix(".").removesuffix(".part")
        raise UsageError(
            f"another pgdyno is saving or removing the snapshot {name}",
            code="snapshot-busy",
            hint="wait until it has ended, or choose another name",
        )
    try:
        _remove(part)
    finally:
        os.close(lock)


def _remove(part: Path) -> None:
    end_helpers(part)  # A copy outlives the pgdyno that began it.
    remove_own_directory(part)
    if part.exists():
        raise SetupError(f"{part} cannot be removed completely", code="snapshot-remains")


def _names(home: Path) -> list[str]:
    return sorted(
        path.name for path in home.iterdir() if path.is_dir() and not path.name.startswith(".")
    )


def _found(home: Path, name: str) -> Path:
    check_name(name)
    directory = home / name
    refuse_link(directory)
    if directory.is_dir():
        return directory
    names = _names(home)
    near = difflib.get_close_matches(name, names, 3)
    listed = f"did you mean {' or '.join(near)}?" if near else _LISTED
    raise UsageError(
        f"there is no snapshot {name}",
        code="no-snapshot",
        hint=listed if names else f"pgdyno snapshot save {name} makes it",
    )
