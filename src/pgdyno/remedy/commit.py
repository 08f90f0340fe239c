"""How a commit reaches the disk: wait for company before the flush, or do not wait for the flush.

Bounds: PostgreSQL's documentation, "Asynchronous Commit" and "WAL configuration"; fsync=off as
"Server configuration, Write Ahead Log" has it.
"""

from __future__ import annotations

from pgdyno.remedy.remedy import Remedy

REMEDIES = (
    Remedy(
        id="commit-delay",
        summary="let commits wait briefly so that one flush serves several",
        kind="reload",
        durability_class="D0",
        bound="nothing is lost",
        price=(
            "adds up to the delay to a commit's latency whenever at least commit_siblings other"
            " transactions are open; of no use when few sessions commit at once"
        ),
        settings=("commit_delay", "commit_siblings"),
    ),
    Remedy(
        id="synchronous-commit-off",
        summary="answer a commit before its WAL has reached the disk",
        kind="reload",
        durability_class="D1",
        bound=(
            "commits acknowledged within the last three times wal_writer_delay (600 ms by"
            " default) may be lost after a crash; what remains is consistent"
        ),
        price=(
            "may be set for a transaction, a role or a database alone, so that what must not be"
            " lost still waits"
        ),
        settings=("synchronous_commit",),
    ),
    Remedy(
        id="fsync-off",
        summary="never make anything reach the disk",
        kind="reload",
        durability_class="D3",
        bound="after a crash of the operating system or a power cut the database may be unusable",
        price="only for data that can be made again from elsewhere",
        settings=("fsync",),
    ),
)
