"""Memory of the server and of its machine."""

from __future__ import annotations

from pgdyno.remedy._remedy import Case, Remedy
from pgdyno.spec.disk import flushes


def _stops_flushing(case: Case) -> bool:
    return case.becomes(lambda server: not flushes(server.disk.data_plan))


def _another_disk(case: Case) -> bool:
    return not _stops_flushing(case)


REMEDIES = (
    # Shared memory: buffers for pages and for WAL. Read only at server start.
    Remedy(
        id="wal-buffers",
        summary="buffer more WAL before a session must write it itself",
        kind="restart",
        durability_class="D0",
        price="memory of that size, and a restart",
        settings=("wal_buffers",),
    ),
    Remedy(
        id="shared-buffers",
        summary="keep more of the data in PostgreSQL's own buffers",
        kind="restart",
        durability_class="D0",
        price=(
            "memory of that size, which the kernel's cache loses, and a restart; checkpoints may"
            " write more"
        ),
        settings=("shared_buffers",),
        when=lambda case: not case.shrinks("shared_buffers", 128 << 20),
        checkpoint_bound=True,
    ),
    # Parameters of the kernel, and the disk that the data are on with its mount options. What must
    # be durable is flushed by PostgreSQL itself, so the kernel's memory of pages not yet
    # written decides nothing. A file system that does not flush the disk's cache does: see
    # barrier in ext4(5), and "Reliability" in PostgreSQL's documentation.
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
    # Remedies that write dirty pages early and in small portions, so that neither a checkpoint's
    # sync nor the kernel must write many of them at once.
    Remedy(
        id="flush-early",
        summary="make the kernel write dirty pages back early instead of in bursts",
        kind="reload",
        durability_class="D0",
        price=(
            "pages that are modified again are written more than once; throughput between stalls"
            " may fall slightly"
        ),
        settings=("checkpoint_flush_after", "backend_flush_after", "bgwriter_flush_after"),
        checkpoint_bound=True,
    ),
    Remedy(
        id="bgwriter",
        summary="make the background writer write dirty buffers earlier",
        kind="reload",
        durability_class="D0",
        price="pages that are modified again are written more than once",
        settings=("bgwriter_delay", "bgwriter_lru_maxpages", "bgwriter_lru_multiplier"),
        checkpoint_bound=True,
    ),
)
