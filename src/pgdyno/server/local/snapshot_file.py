"""``snapshot.json``: what a snapshot is of, and the reasons for which a description is refused."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from pgdyno.server.versions import SUPPORTED_MAJORS
from pgdyno.spec.age import Ids

FILE = "snapshot.json"
_DAYS_MAX = 36_500


def _time(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without its zone")
    return text


_Count = Annotated[int, Field(ge=0, lt=1 << 63)]
_IdAge = Annotated[int, Field(ge=0, lt=1 << 31)]
_Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class Origin:
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
    """Size on disk, without what it shares with other files."""
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
    origin: Origin | None = None
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
    """Return what the snapshot in ``directory`` is of, or what is wrong with it."""
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
