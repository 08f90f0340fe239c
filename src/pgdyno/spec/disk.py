"""Disks as a spec names them: ``plain``, ``tmpfs:1GB``, ``slow:flush=2ms``, ``blackout:fs=xfs``.

A disk is a kind and, after a colon, what it has different from its kind's default: a folder for
``plain``, a size for ``tmpfs``, ``key=value`` pairs for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, WithJsonSchema

from pgdyno.spec.units import format_size, parse_duration_us, parse_size_bytes

DiskKind = Literal["plain", "tmpfs", "slow", "blackout"]
FileSystem = Literal["ext4", "xfs"]

_PATTERN = r"(plain(:/.*)?|tmpfs(:.+)?|slow:.+|blackout(:.+)?)"
DISK_EXAMPLES = (
    "plain",
    "plain:/mnt/fast",
    "tmpfs:1GB",
    "slow:flush=2ms,write=100MB",
    "blackout:fs=xfs,size=2GB",
)

SIZE_BYTES_MIN = {"tmpfs": 32 << 20, "ext4": 64 << 20, "xfs": 300 << 20}
"""What smaller than this cannot hold two WAL segments, or cannot be made into a file system."""
_SIZE_BYTES_MAX = 1 << 50
_FLUSH_MS_MAX = 10_000.0
_WRITE_BYTES_PER_S_MIN = 64 << 10


@dataclass(frozen=True)
class DiskPlan:
    """A disk to be opened."""

    kind: DiskKind
    size_bytes: int | None = None
    """Of tmpfs and of the disks in an image; ``None``: chosen when it is opened."""
    path: Path | None = None
    """For plain: the folder to be in; ``None``: the cluster's own."""
    flush_ms: float = 0.0
    """For slow: how long a flush takes at least."""
    write_bytes_per_s: int | None = None
    """For slow: how much can be written."""
    fs: FileSystem = "ext4"
    """For the disks in an image."""

    @property
    def emulated(self) -> bool:
        """Whether a speed measured on it is not that of a real disk."""
        return self.kind in ("slow", "blackout")

    def __str__(self) -> str:
        """In words, as ``tmpfs of 1GB``."""
        size = f" of {format_size(self.size_bytes)}" if self.size_bytes else ""
        match self.kind:
            case "plain":
                return "a plain folder" if self.path is None else f"a plain folder in {self.path}"
            case "tmpfs":
                return f"tmpfs{size}"
            case "slow":
                return f"an emulated slow disk{size} ({', '.join(self._limits())})"
            case "blackout":
                return f"an emulated disk{size} that records every write"

    def _limits(self) -> list[str]:
        limits = [f"a flush takes {self.flush_ms:g} ms"] if self.flush_ms else []
        if self.write_bytes_per_s:
            limits.append(f"writes up to {format_size(self.write_bytes_per_s)}/s")
        return limits


def disk_plan(text: str) -> DiskPlan:
    """The disk that ``text`` names. Raises ``ValueError`` with a message for users."""
    kind, colon, rest = text.strip().partition(":")
    if kind not in _READERS:
        raise ValueError(f'"{text}" is no disk; disks are {", ".join(DISK_EXAMPLES)}')
    if colon and not rest.strip():
        raise ValueError(f'"{text}": nothing follows the colon')
    return _READERS[kind](rest.strip())


def wal_plan(text: str) -> DiskPlan | None:
    """As :func:`disk_plan`; ``None`` for ``data``, which means with the data."""
    return None if text.strip() == "data" else disk_plan(text)


def _plain(rest: str) -> DiskPlan:
    if not rest:
        return DiskPlan("plain")
    if not rest.startswith("/"):
        raise ValueError(f'"plain:{rest}" wants an absolute path, as plain:/mnt/fast')
    return DiskPlan("plain", path=Path(rest))


def _tmpfs(rest: str) -> DiskPlan:
    if not rest:
        return DiskPlan("tmpfs")
    size = parse_size_bytes(rest.removeprefix("size="))
    return DiskPlan("tmpfs", size_bytes=_large_enough(size, "tmpfs", rest))


def _slow(rest: str) -> DiskPlan:
    options = _options("slow", rest, {"flush", "write", "size", "fs"})
    if not options.keys() & {"flush", "write"}:
        raise ValueError(
            "a slow disk wants to know how slow: slow:flush=2ms, slow:write=100MB or both"
        )
    flush_ms = parse_duration_us(options.get("flush", "0")) / 1000
    if flush_ms > _FLUSH_MS_MAX:
        raise ValueError(f"flush={options['flush']}: at most 10s")
    return _imaged("slow", options, flush_ms=flush_ms, write_bytes_per_s=_write_rate(options))


def _write_rate(options: dict[str, str]) -> int | None:
    """``100MB`` or ``100MB/s``."""
    if (text := options.get("write")) is None:
        return None
    rate = parse_size_bytes(text.removesuffix("/s"))
    if rate < _WRITE_BYTES_PER_S_MIN:
        raise ValueError(f"write={text}: at least 64kB a second")
    return rate


def _blackout(rest: str) -> DiskPlan:
    return _imaged("blackout", _options("blackout", rest, {"size", "fs"}))


def _imaged(kind: DiskKind, options: dict[str, str], **more: Any) -> DiskPlan:
    fs = _file_system(options.get("fs", "ext4"))
    size = None
    if "size" in options:
        size = _large_enough(parse_size_bytes(options["size"]), fs, options["size"])
    return DiskPlan(kind, size_bytes=size, fs=fs, **more)


def _file_system(name: str) -> FileSystem:
    match name:
        case "ext4" | "xfs":
            return name
    raise ValueError(f"fs={name}: file systems are ext4 and xfs")


def _large_enough(size: int, what: str, text: str) -> int:
    least = SIZE_BYTES_MIN[what]
    if size < least:
        why = ", two segments of WAL" if what == "tmpfs" else ""
        raise ValueError(f'"{text}": {what} needs at least {format_size(least)}{why}')
    if size > _SIZE_BYTES_MAX:
        raise ValueError(f'"{text}": more than {format_size(_SIZE_BYTES_MAX)}')
    return size


def _options(kind: str, rest: str, known: set[str]) -> dict[str, str]:
    """``flush=2ms,write=100MB`` as a mapping."""
    options: dict[str, str] = {}
    for part in rest.split(",") if rest else []:
        key, equals, value = (word.strip() for word in part.partition("="))
        if key not in known:
            names = ", ".join(sorted(known))
            raise ValueError(f'{kind}: no option "{key}"; there are {names}')
        if not equals or not value:
            raise ValueError(f"{kind}: {key} wants a value, as {key}={_EXAMPLE_VALUES[key]}")
        if key in options:
            raise ValueError(f"{kind}: {key} is given twice")
        options[key] = value
    return options


_EXAMPLE_VALUES = {"flush": "2ms", "write": "100MB", "size": "2GB", "fs": "xfs"}
_READERS: dict[str, Callable[[str], DiskPlan]] = {
    "plain": _plain,
    "tmpfs": _tmpfs,
    "slow": _slow,
    "blackout": _blackout,
}


def in_words(spec: Mapping[str, Any]) -> list[str]:
    """The disks of a spec, as ``WAL on tmpfs of 1GB``; nothing of what is in the cluster's folder.

    ``spec`` is one of a run file, which another version may have written.
    """
    return [f"{what} {_place(plan)}" for what, plan in _disks(spec) if plan != DiskPlan("plain")]


def emulated_in_words(
    spec: Mapping[str, Any], changes: Iterable[Mapping[str, Any]] = ()
) -> str | None:
    """Which emulated disks a run's figures come from; ``None``: from none.

    ``changes`` are those of its slices, as their JSON, which may have moved the WAL.
    """
    found: dict[str, None] = {}
    moves = {change.get("spec", {}).get("disk.wal") for change in changes} - {None}
    for wal in (None, *sorted(moves)):
        moved = spec if wal is None else {**spec, "disk": {**_texts(spec), "wal": wal}}
        for what, plan in _disks(moved):
            if plan.emulated:
                found[f"{what} {_place(plan)}"] = None
    return " or ".join(found) or None


def _texts(spec: Mapping[str, Any]) -> dict[str, str]:
    texts = spec.get("disk")
    return {role: str(text) for role, text in texts.items()} if isinstance(texts, Mapping) else {}


def _disks(spec: Mapping[str, Any]) -> list[tuple[str, DiskPlan]]:
    """What is on which disk; what cannot be read, of another version, is left out."""
    texts = _texts(spec)
    try:
        data, wal = disk_plan(texts.get("data", "plain")), wal_plan(texts.get("wal", "data"))
    except ValueError:
        return []
    return [("data and WAL", data)] if wal is None else [("data", data), ("WAL", wal)]


def _place(plan: DiskPlan) -> str:
    return f"{'in' if plan.kind == 'plain' else 'on'} {plan}"


def _checked_disk(text: str) -> str:
    disk_plan(text)
    return text.strip()


def _checked_wal(text: str) -> str:
    wal_plan(text)
    return text.strip()


def _in_schema(pattern: str, *more: str) -> WithJsonSchema:
    return WithJsonSchema(
        {"type": "string", "pattern": f"^{pattern}$", "examples": [*more, *DISK_EXAMPLES]}
    )


DataDisk = Annotated[str, AfterValidator(_checked_disk), _in_schema(_PATTERN)]
WalDisk = Annotated[str, AfterValidator(_checked_wal), _in_schema(f"(data|{_PATTERN})", "data")]
