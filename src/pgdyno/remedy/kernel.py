"""Parameters of the kernel, and the disk that the data are on with its mount options.

What must be durable is flushed by PostgreSQL itself, so the kernel's memory of pages not yet
written decides nothing. A file system that does not flush the disk's cache does: see barrier in
ext4(5), and "Reliability" in PostgreSQL's documentation.
"""

from __future__ import annotations

from pgdyno.remedy._remedy import Case, Remedy
from pgdyno.spec.disk import flushes


def _stops_flushing(case: Case) -> bool:
    return case.becomes(lambda server: not flushes(server.disk.data_plan))


def _another_disk(case: Case) -> bool:
    return not _stops_flushing(case)


REMEDIES = (
    Remedy(
        id="kernel-parameter",
        summary="change a parameter of the kernel",
        kind="machine",
        durability_class="D0",
        price="it holds for all programs of the machine",
        keys=("kernel.*",),
    ),
    Remedy(
        id="data-disk",
        summary="keep the data on another file system, or mount it with other options",
        kind="layout",
        durability_class="D0",
        price="the server is stopped while its files are copied, or the disk is mounted again",
        keys=("disk.data",),
        when=_another_disk,
    ),
    Remedy(
        id="no-barrier",
        summary="mount the disk of the data without flushes of its cache",
        kind="layout",
        durability_class="D2",
        bound=(
            "a power cut loses what the disk had in its cache: acknowledged commits, and the"
            " database may be corrupt"
        ),
        price="nothing as long as the power stays",
        keys=("disk.data",),
        when=_stops_flushing,
        faults=("power",),
        manual_lines=("-- stop PostgreSQL, mount the disk of the data again with barrier=0",),
    ),
)
