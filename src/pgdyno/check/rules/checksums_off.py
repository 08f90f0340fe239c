"""No checksums of pages: damage by disk or memory is not noticed.

Trigger: data_checksums is off, and the database has at least ``DATA_BYTES_MIN``. Threshold: ours; a
database that is smaller is restored faster than it is checked. Version 18 has checksums by default.
It is minor: turning them on needs the server to be down while all pages are written.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import size

DATA_BYTES_MIN = 1 << 30


def examine(sight: Sight) -> Fault | Fine:
    """Examine the setting and the size of the database."""
    checksums = sight.setting("data_checksums")
    data = float(sight.row("relation_total")["bytes"])
    evidence = [
        measured("data_checksums", checksums.value, "", "off"),
        measured("size of the database", data, "bytes", f"at least {size(DATA_BYTES_MIN)}"),
    ]
    if checksums.is_on or data < DATA_BYTES_MIN:
        return Fine("pages have checksums, or the database is small", evidence)
    return Fault(
        sentence="pages have no checksums: damage by disk or memory is not noticed",
        severity="minor",
        confidence=0.95,
        evidence=evidence,
        advice=(
            "with the server stopped, pg_checksums --enable writes all pages; on a standby first,"
            " then switch over to it"
        ),
    )


RULE = Rule(
    id="checksums-off",
    looks=("setting", "relation_total"),
    false_positives="a file system with checksums of its own, such as ZFS or btrfs",
    examine=examine,
)
