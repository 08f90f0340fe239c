"""Wide values are compressed with pglz, where lz4 is built in.

Trigger: default_toast_compression is pglz, the server was built with lz4, and tables with columns
compressed by it hold at least ``TOAST_BYTES_MIN`` out of line. Threshold: pg_gather recommends lz4
wherever it is built in; below this size compression is no cost that shows, by our reasoning: pglz
compresses some 20 MB/s or more on one core. It is minor: lz4 takes less CPU time and somewhat more
space. Values that are there stay as they are.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, alter_system, measured, pages_bytes
from pgdyno.numbers import listed, size

TOAST_BYTES_MIN = 1 << 30
_NAME = "default_toast_compression"


def examine(sight: Sight) -> Fault | Fine:
    """Compare the method with what is built in, and with what is stored."""
    default = sight.setting(_NAME)
    choices = next(row["enumvals"] for row in sight.rows("setting") if row["name"] == _NAME) or []
    tables = [row for row in sight.rows("toast") if row["columns"]]
    stored = sum(pages_bytes(sight, row["toast_pages"]) for row in tables)
    evidence = [
        measured(_NAME, default.value, "", "pglz, with lz4 built in"),
        measured("lz4 built in", "yes" if "lz4" in choices else "no", ""),
        measured("values out of line", stored, "bytes", f"at least {size(TOAST_BYTES_MIN)}"),
    ]
    if default.value != "pglz" or "lz4" not in choices or stored < TOAST_BYTES_MIN:
        return Fine("compression of wide values costs little, or is lz4", evidence)
    return Fault(
        sentence=(
            f"{size(stored)} of wide values are stored out of line, and new ones are compressed"
            " with"
            f" pglz instead of lz4: {listed([row['relation'] for row in tables])}"
        ),
        severity="minor",
        confidence=0.5,
        evidence=evidence,
        commands=alter_system({"default_toast_compression": "lz4"}),
    )


RULE = Rule(
    id="toast-compression",
    looks=("server", "setting", "toast"),
    false_positives="values that are compressed already, or hardly ever written",
    examine=examine,
)
