"""File systems of data or WAL that can lose what they acknowledged.

Trigger: data or WAL is in memory (tmpfs, ramfs): a crash of the machine loses all of it (class D3);
or its file system is mounted without write barriers (nobarrier, barrier=0), without journaling
of data's order (data=writeback), or over NFS with soft. Threshold: none; for barriers see
PostgreSQL's documentation ("Reliability and the Write-Ahead Log"), for soft mounts its page
"Creating a Database Cluster". data=writeback is minor: PostgreSQL syncs what it needs itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, Unseen, measured
from pgdyno.record.finding import Severity

_IN_MEMORY = ("tmpfs", "ramfs")
_NO_BARRIER = {"nobarrier", "barrier=0"}


def examine(sight: Sight) -> Fault | Fine:
    """Examine the mounts of data and WAL."""
    mounts = sight.host.get("filesystem") or {}
    if not mounts:
        raise Unseen("the file systems of data and WAL", *_unseen(sight))
    wrong = [fault for what, mount in mounts.items() for fault in _wrong(what, mount)]
    evidence = [
        measured(f"file system of the {what}", f"{mount['type']} ({mount['options']})", "")
        for what, mount in mounts.items()
    ]
    if not wrong:
        return Fine("the file systems of data and WAL keep what they acknowledge", evidence)
    worst: Severity = "costs" if any(severity == "costs" for _, severity in wrong) else "minor"
    return Fault(
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


RULE = Rule(
    id="unsafe-file-system",
    looks=(),
    false_positives="a cache with a battery, for barriers; a server for tests, for memory",
    examine=examine,
)
