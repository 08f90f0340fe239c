"""Disks, file systems and the way in which the kernel writes to them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from pgdyno.facts.sight import Sight, Unseen, measured
from pgdyno.facts.situation import Situation
from pgdyno.json_types import Row
from pgdyno.numbers import percent, size
from pgdyno.record.finding import Evidence, Severity, Skip
from pgdyno.rules.rule import Cleared, Found, rule

BUSY_SHARE = 0.6
OTHERS_SHARE = 0.5
FLUSH_SHARE = 0.15
_NAME = "data,wal"


class _Device(Struct, frozen=True):
    name: str
    busy: float
    written_bytes: float
    read_bytes: float
    wal_bytes: float

    @property
    def others(self) -> float:
        """Part of the bytes written that is not WAL."""
        if self.written_bytes <= 0:
            return 0.0
        return max(0.0, 1.0 - self.wal_bytes / self.written_bytes)


@rule(
    "shared-device",
    false_positives=(
        "a device that does many things at once, which is at work all the time long before it is"
        " its limit; other programs that write to it"
    ),
)
def shared_device(s: Situation) -> Found | Cleared:
    """WAL and data on one device: flushes of the WAL queue behind reads and writes of data.

    Trigger: one device holds both and is at work for at least ``BUSY_SHARE`` of the time, at least
    ``OTHERS_SHARE`` of what is written to it is not WAL, and sessions wait for the flush for at
    least ``FLUSH_SHARE`` of the response time. The waits themselves belong to the commit flush.

    Thresholds: from 60 % on, a device that does one thing at a time makes a request wait longer
    than it takes (1 / (1 - 0.6) = 2.5 times the service, by the queue M/M/1); the other two are
    calibrated by injection, checkpoints on a disk that writes 16 MB/s.
    """
    device = _shared(s)
    if device is None:
        evidence = [s.evidence("devices with both WAL and data", 0, "count")]
        return Cleared("WAL and data are on devices of their own", evidence)
    flush = s.budget.own_share("flush", "images")
    evidence = _shared_device_evidence(s, device, flush)
    if device.busy < BUSY_SHARE or device.others < OTHERS_SHARE or flush < FLUSH_SHARE:
        return Cleared(f"the device of WAL and data is {percent(device.busy)} busy", evidence)
    return Found(
        sentence=(
            f"WAL and data are on one device, {device.name}, {percent(device.busy)} busy:"
            f" {percent(device.others)} of what is written to it is not WAL"
        ),
        share=0.0,
        removable_share=0.0,
        confidence=0.6,
        evidence=evidence,
        advice="put pg_wal on a device of its own",
    )


def _shared(s: Situation) -> _Device | None:
    series = s.run.series("metric_disk", s.slice_ids)
    if not len(series["at_ms"]):
        raise Skip("the devices of WAL and data were not recorded")
    for name, holds in sorted(set(zip(series["device"], series["holds"], strict=True))):
        if holds != _NAME:
            continue
        busy_ms, written, read = (
            s.run.delta("metric_disk", column, s.slice_ids, where={"device": name}) or 0.0
            for column in ("busy_ms", "write_bytes", "read_bytes")
        )
        busy = min(1.0, busy_ms / 1000 / s.seconds)
        return _Device(str(name), busy, written, read, s.wal.bytes)
    return None


def _shared_device_evidence(s: Situation, device: _Device, flush: float) -> list[Evidence]:
    return [
        s.evidence(
            f"{device.name} at work", device.busy, "share", f"at least {percent(BUSY_SHARE)}"
        ),
        s.evidence("written to it", device.written_bytes / s.seconds, "bytes/s"),
        s.evidence("read from it", device.read_bytes / s.seconds, "bytes/s"),
        s.evidence("of that not WAL", device.others, "share", f"at least {percent(OTHERS_SHARE)}"),
        s.evidence("WAL flush / response time", flush, "share", f"at least {percent(FLUSH_SHARE)}"),
    ]


BACKGROUND_BYTES_MIN = 1 << 30
DIRTY_BYTES_MIN = 1 << 30


@rule(
    "late-writeback",
    looks=("kernel",),
    false_positives="files of other programs on the machine, such as a backup or a copy",
)
def late_writeback(sight: Sight) -> Found | Cleared:
    """The kernel may collect gigabytes of written pages before it writes them; fsync waits for all.

    Trigger: the kernel begins to write on its own only at ``BACKGROUND_BYTES_MIN`` of dirty pages
    or more (dirty_background_ratio of the available memory, or dirty_background_bytes), and at
    least ``DIRTY_BYTES_MIN`` are dirty at this moment. Threshold: ours; a gigabyte takes seconds on
    most devices, for which a checkpoint's fsync and the commits behind it wait. It is minor; the
    sizes are the machine's, whoever wrote the pages.
    """
    row = sight.row("kernel")
    if "dirty_background_ratio" not in row or "Dirty" not in row:
        raise Skip("the kernel's limits are not readable")
    share = row["dirty_background_ratio"] / 100
    background = row.get("dirty_background_bytes") or share * row["MemAvailable"]
    dirty = row["Dirty"] + row["Writeback"]
    evidence = [
        measured("dirty pages at which the kernel begins to write", background, "bytes",
                 f"at least {size(BACKGROUND_BYTES_MIN)}"),
        measured("dirty pages now", dirty, "bytes", f"at least {size(DIRTY_BYTES_MIN)}"),
    ]  # fmt: skip
    if background < BACKGROUND_BYTES_MIN or dirty < DIRTY_BYTES_MIN:
        return Cleared("few written pages wait in the file cache", evidence)
    return Found(
        sentence=(
            f"{size(dirty)} of written pages wait in the file cache, and the kernel begins to write"
            f" at {size(background)}: an fsync waits for much at once"
        ),
        severity="minor",
        confidence=0.5,
        evidence=evidence,
        commands=["sysctl -w vm.dirty_background_bytes=268435456 vm.dirty_bytes=1073741824"],
    )


READ_AHEAD_KB_MAX = 1024
_FOR_ROTATING = ("bfq", "cfq")


@rule(
    "device-settings",
    looks=("block_device",),
    false_positives="large scans alone, such as those of a warehouse",
)
def device_settings(sight: Sight) -> Found | Cleared:
    """Settings of the block devices of data and WAL that do not suit a database on flash.

    Trigger, for a device that does not rotate: read-ahead above ``READ_AHEAD_KB_MAX``, so that a
    read of one page fetches hundreds; or one of the I/O schedulers for rotating disks (bfq, cfq).
    Thresholds: ours; Linux's default is 128 kB, vacuum gains from some read-ahead, and nothing from
    more than a megabyte. It is minor. Virtual devices often say that they rotate, and are then not
    judged.
    """
    flash = [row for row in sight.rows("block_device") if not row["rotational"]]
    ahead = [row for row in flash if (row["read_ahead_kb"] or 0) > READ_AHEAD_KB_MAX]
    scheduled = [row for row in flash if row["scheduler"] in _FOR_ROTATING]
    evidence = [item for row in flash for item in _device_settings_evidence(row)]
    if not ahead and not scheduled:
        return Cleared("the block devices of data and WAL are set as they should be", evidence)
    said = [f"{row['device']} reads {row['read_ahead_kb']} kB ahead" for row in ahead]
    said += [f"{row['device']} has the I/O scheduler {row['scheduler']}" for row in scheduled]
    return Found(
        sentence="; ".join(said),
        severity="minor",
        confidence=0.5,
        evidence=evidence,
        commands=[
            *(f"blockdev --setra 256 /dev/{row['device']}" for row in ahead),
            *(f"echo none > /sys/block/{row['device']}/queue/scheduler" for row in scheduled),
        ],
    )


def _device_settings_evidence(row: Row) -> list[Evidence]:
    bar = f"more than {READ_AHEAD_KB_MAX} kB"
    return [
        measured(f"read-ahead of {row['device']}", row["read_ahead_kb"], "kB", bar),
        measured(f"I/O scheduler of {row['device']}", row["scheduler"], "", "bfq or cfq"),
    ]


_IN_MEMORY = ("tmpfs", "ramfs")
_NO_BARRIER = {"nobarrier", "barrier=0"}


@rule(
    "unsafe-file-system",
    looks=(),
    false_positives="a cache with a battery, for barriers; a server for tests, for memory",
)
def unsafe_file_system(sight: Sight) -> Found | Cleared:
    """File systems of data or WAL that can lose what they acknowledged.

    Trigger: data or WAL is in memory (tmpfs, ramfs): a crash of the machine loses all of it (class
    D3); or its file system is mounted without write barriers (nobarrier, barrier=0), without
    journaling of data's order (data=writeback), or over NFS with soft. Threshold: none; for
    barriers see PostgreSQL's documentation ("Reliability and the Write-Ahead Log"), for soft mounts
    its page "Creating a Database Cluster". data=writeback is minor: PostgreSQL syncs what it needs
    itself.
    """
    mounts = sight.host.get("filesystem") or {}
    if not mounts:
        raise Unseen("the file systems of data and WAL", *_unseen(sight))
    wrong = [fault for what, mount in mounts.items() for fault in _wrong(what, mount)]
    evidence = [
        measured(f"file system of the {what}", f"{mount['type']} ({mount['options']})", "")
        for what, mount in mounts.items()
    ]
    if not wrong:
        return Cleared("the file systems of data and WAL keep what they acknowledge", evidence)
    worst: Severity = "costs" if any(severity == "costs" for _, severity in wrong) else "minor"
    return Found(
        sentence="; ".join(dict.fromkeys(sentence for sentence, _ in wrong)),
        severity=worst,
        confidence=0.8,
        evidence=evidence,
        advice="mount it with its defaults, or move data and WAL to a file system on a disk",
    )


def _unseen(sight: Sight) -> tuple[str, str]:
    """Return why the data directory is not seen, and what would allow it: a right is lacking only
    where the server does not tell its name."""
    known = sight.run.run.server.get("data_directory")
    if not known:
        return (
            "the data directory is hidden from this role",
            "GRANT pg_read_all_settings TO the role",
        )
    return (
        f"{known} is not visible from here: the server has other directories than pgdyno (a"
        " container, a chroot), or this account may not enter it",
        "run pgdyno check where the server sees its files, as an account that may enter them",
    )


def _wrong(what: str, mount: dict[str, str]) -> Iterator[tuple[str, Severity]]:
    options = set(str(mount["options"]).split(","))
    if mount["type"] in _IN_MEMORY:
        yield f"the {what} is in memory ({mount['type']}): a crash of the machine loses it", "costs"
    if options & _NO_BARRIER:
        yield f"the {what} is mounted without write barriers: a power cut may damage it", "costs"
    if mount["type"].startswith("nfs") and "soft" in options:
        yield f"the {what} is on NFS mounted soft: an error of the network loses writes", "costs"
    if "data=writeback" in options:
        yield f"the {what} is mounted with data=writeback", "minor"
