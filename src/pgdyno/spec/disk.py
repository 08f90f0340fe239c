"""Disks of a spec: ``plain``, ``tmpfs:1GB``, ``xfs:2GB``, ``loop:fs=xfs``, ``slow:flush=2ms``,
``blackout:fs=xfs``.

A disk is a kind and, after a colon, its options: a directory for ``plain``, a size for ``tmpfs``
and ``xfs``, ``key=value`` pairs for the others.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Struct
from pydantic import AfterValidator, WithJsonSchema

from pgdyno.json_types import Fields
from pgdyno.spec.units import format_size, parse_duration_us, parse_size_bytes

DiskKind = Literal["plain", "tmpfs", "xfs", "loop", "slow", "blackout"]
FileSystem = Literal["ext4", "xfs"]

_PATTERN = r"(plain(:/.*)?|tmpfs(:.+)?|xfs(:.+)?|loop(:.+)?|slow:.+|blackout(:.+)?)"
DISK_EXAMPLES = (
    "plain",
    "plain:/mnt/fast",
    "tmpfs:1GB",
    "xfs:8GB",
    "loop:fs=ext4,mount=noatime+discard",
    "slow:flush=2ms,write=100MB",
    "blackout:fs=xfs,size=2GB",
)

SIZE_BYTES_MIN = {"tmpfs": 32 << 20, "ext4": 64 << 20, "xfs": 300 << 20}
"""Minimum sizes: two WAL segments on tmpfs; what mkfs needs for the others."""
_SIZE_BYTES_MAX = 1 << 50
_FLUSH_MS_MAX = 10_000.0
_WRITE_BYTES_PER_S_MIN = 64 << 10


class DiskPlan(Struct, frozen=True):
    """Kind and options of a disk."""

    kind: DiskKind
    size_bytes: int | None = None
    """Size of tmpfs or of an image; ``None``: chosen when the disk is opened."""
    path: Path | None = None
    """Parent directory of a plain disk; ``None``: the cluster's own directory."""
    flush_ms: float = 0.0
    """Minimum duration of a flush of a slow disk."""
    write_bytes_per_s: int | None = None
    """Maximum write rate of a slow disk."""
    fs: FileSystem = "ext4"
    """File system of a disk in an image."""
    mount: tuple[str, ...] = ()
    """Mount options of a disk of kind loop."""

    @property
    def emulated(self) -> bool:
        """True if a speed measured on it is not that of a real disk."""
        return self.kind in ("xfs", "loop", "slow", "blackout")

    def __str__(self) -> str:
        """Describe the disk, such as ``tmpfs of 1GB``."""
        size = f" of {format_size(self.size_bytes)}" if self.size_bytes else ""
        match self.kind:
            case "plain":
                return f"a directory in {self.path}" if self.path else "a plain directory"
            case "tmpfs":
                return f"tmpfs{size}"
            case "xfs":
                return f"XFS{size} in an image file"
            case "loop":
                options = f", mounted with {','.join(self.mount)}" if self.mount else ""
                return f"{self.fs}{size} on a loop device{options}"
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
    """Parse a disk. Raises ``ValueError`` with a message for users."""
    kind, colon, rest = text.strip().partition(":")
    if kind not in _READERS:
        raise ValueError(f'"{text}" is not a disk; examples: {", ".join(DISK_EXAMPLES)}')
    if colon and not rest.strip():
        raise ValueError(f'"{text}": an option must follow the colon')
    return _READERS[kind](rest.strip())


def wal_plan(text: str) -> DiskPlan | None:
    """Parse a disk like :func:`disk_plan`; ``None`` for ``data``, the disk of the data."""
    return None if text.strip() == "data" else disk_plan(text)


def _plain(rest: str) -> DiskPlan:
    if not rest:
        return DiskPlan("plain")
    if not rest.startswith("/"):
        raise ValueError(f'"plain:{rest}": expected an absolute path, such as plain:/mnt/fast')
    return DiskPlan("plain", path=Path(rest))


def _tmpfs(rest: str) -> DiskPlan:
    return DiskPlan("tmpfs", size_bytes=_size(rest, "tmpfs"))


def _xfs(rest: str) -> DiskPlan:
    return DiskPlan("xfs", size_bytes=_size(rest, "xfs"), fs="xfs")


def _loop(rest: str) -> DiskPlan:
    options = _options("loop", rest, {"size", "fs", "mount"})
    return _imaged("loop", options, mount=_mount_options(options.get("mount", "")))


def _mount_options(text: str) -> tuple[str, ...]:
    """Parse ``noatime+data=writeback``; which of them a file system knows, the kernel says."""
    found = tuple(text.replace(" ", "").split("+")) if text else ()
    for option in found:
        if not _MOUNT_OPTION.fullmatch(option) or option.partition("=")[0] in _NOT_FOR_A_SERVER:
            raise ValueError(
                f"mount={text}: {option or 'an empty text'} is no mount option for a server's data;"
                " options are joined by +, such as mount=noatime+data=writeback"
            )
    return found


def flushes(plan: DiskPlan) -> bool:
    """Return whether the file system of a disk flushes the disk's cache, as it does by default."""
    return not {"nobarrier", "barrier=0"} & set(plan.mount)


def _size(rest: str, what: str) -> int | None:
    """Parse a size, which may be left out."""
    return _large_enough(parse_size_bytes(rest.removeprefix("size=")), what, rest) if rest else None


def _slow(rest: str) -> DiskPlan:
    options = _options("slow", rest, {"flush", "write", "size", "fs"})
    if not options.keys() & {"flush", "write"}:
        raise ValueError(
            "a slow disk needs flush, write or both, such as slow:flush=2ms,write=100MB"
        )
    flush_ms = parse_duration_us(options.get("flush", "0")) / 1000
    if flush_ms > _FLUSH_MS_MAX:
        raise ValueError(f"flush={options['flush']}: must be at most 10s")
    return _imaged("slow", options, flush_ms=flush_ms, write_bytes_per_s=_write_rate(options))


def _write_rate(options: dict[str, str]) -> int | None:
    """Parse ``100MB`` or ``100MB/s``."""
    if (text := options.get("write")) is None:
        return None
    rate = parse_size_bytes(text.removesuffix("/s"))
    if rate < _WRITE_BYTES_PER_S_MIN:
        raise ValueError(f"write={text}: must be at least 64kB per second")
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
    raise ValueError(f"fs={name}: must be ext4 or xfs")


def _large_enough(size: int, what: str, text: str) -> int:
    least = SIZE_BYTES_MIN[what]
    if size < least:
        why = ", for two WAL segments" if what == "tmpfs" else ""
        raise ValueError(f'"{text}": {what} needs at least {format_size(least)}{why}')
    if size > _SIZE_BYTES_MAX:
        raise ValueError(f'"{text}": must be at most {format_size(_SIZE_BYTES_MAX)}')
    return size


def _options(kind: str, rest: str, known: set[str]) -> dict[str, str]:
    """Parse ``flush=2ms,write=100MB`` into a mapping."""
    options: dict[str, str] = {}
    for part in rest.split(",") if rest else []:
        key, equals, value = (word.strip() for word in part.partition("="))
        if key not in known:
            names = ", ".join(sorted(known))
            raise ValueError(f'{kind}: unknown option "{key}"; options are {names}')
        if not equals or not value:
            raise ValueError(f"{kind}: {key} needs a value, such as {key}={_EXAMPLE_VALUES[key]}")
        if key in options:
            raise ValueError(f"{kind}: {key} is given twice")
        options[key] = value
    return options


_MOUNT_OPTION = re.compile(r"[a-z][a-z0-9_]*(=[A-Za-z0-9_.:-]+)?")
_NOT_FOR_A_SERVER = frozenset(
    {
        "loop",
        "offset",
        "sizelimit",
        "bind",
        "rbind",
        "move",
        "remount",
        "ro",
        "norecovery",
        "noload",
    }
)
_EXAMPLE_VALUES = {"mount": "noatime", "flush": "2ms", "write": "100MB", "size": "2GB", "fs": "xfs"}
_READERS: dict[str, Callable[[str], DiskPlan]] = {
    "plain": _plain,
    "tmpfs": _tmpfs,
    "xfs": _xfs,
    "loop": _loop,
    "slow": _slow,
    "blackout": _blackout,
}


def in_words(spec: Fields) -> list[str]:
    """Describe the disks of a spec, such as ``WAL on tmpfs of 1GB``, except a default one."""
    return [f"{what} {_located(plan)}" for what, plan in _disks(spec) if plan != DiskPlan("plain")]


def emulated_in_words(specs: Iterable[Fields]) -> str | None:
    """Describe the emulated disks in ``specs``; ``None`` if there are none."""
    found = {
        f"{what} {_located(plan)}": None
        for spec in specs
        for what, plan in _disks(spec)
        if plan.emulated
    }
    return " or ".join(found) or None


def _disks(spec: Fields) -> list[tuple[str, DiskPlan]]:
    """Return the disks with their content."""
    disk = spec.get("disk") or {}
    data, wal = disk_plan(disk.get("data", "plain")), wal_plan(disk.get("wal", "data"))
    return [("data and WAL", data)] if wal is None else [("data", data), ("WAL", wal)]


def _located(plan: DiskPlan) -> str:
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
