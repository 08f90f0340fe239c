"""Changes on an original and on its clone: what gains on one should gain as much on the other.

Each change is measured by ``pgdyno compare``, in interleaved pairs of its own, on the load itself
and on the clone that is made of its capture.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

from msgspec import Struct

from exam.captures.model import Fields, Load
from exam.captures.sides import SETTINGS, Refused, pgdyno
from pgdyno.spec import spec_from_fields, spec_to_toml

BUDGET = "90s"
"""Time for a change; less is refused for settings that need a restart."""
_SLICE = "1s"
_SETTINGS = (
    ("synchronous_commit=off",),
    ("full_page_writes=off",),
    ("wal_compression=on",),
    ("shared_buffers=16MB",),
    ("commit_delay=3000", "commit_siblings=1"),
)
OVERLAPS_MIN = 5
"""Of six changes, those whose intervals overlap."""


class Gain(Struct, frozen=True):
    """Throughput with a change divided by that without, and its 95 % interval."""

    ratio: float
    low: float
    high: float


class Transferred(Struct, frozen=True):
    """A change, measured on both sides; None: without a verdict."""

    change: str
    original: Gain | None
    clone: Gain | None

    @property
    def overlaps(self) -> bool:
        """True if the intervals have ratios in common."""
        one, other = self.original, self.clone
        return bool(one and other and one.low <= other.high and other.low <= one.high)


def transferred(load: Load, capture: Path) -> list[Transferred]:
    """Measure six changes, the last an index that the load lacks, on both sides. Raises Refused."""
    changes = [tuple(word for each in group for word in ("--set", each)) for group in _SETTINGS]
    changes.append(
        ("--sql", f"create index exam_index on {load.index}", "--undo-sql", "drop index exam_index")
    )
    clients = ("-c", str(load.clients))
    original = capture.with_suffix(".toml")
    fields = {**load.fields, "server": {"settings": SETTINGS}}  # Those that were captured.
    original.write_text(spec_to_toml(spec_from_fields(fields, where=load.name), defaults=False))
    return [
        Transferred(
            " ".join(change[1::2][:1]),
            _gain((str(original), *clients, *change)),
            _gain((str(capture), *clients, *change)),
        )
        for change in changes
    ]


def _gain(words: Sequence[str]) -> Gain | None:
    result: Fields = pgdyno("compare", *words, "--budget", BUDGET, "--slice", _SLICE)
    if "effect" not in result:
        raise Refused(str(result.get("error", result)))
    effect = result["effect"]
    if effect is None:
        return None
    low, high = effect["ci95"]
    return Gain(effect["throughput_ratio"], low, high)


def in_order(changes: Sequence[Transferred]) -> bool:
    """Return whether changes whose gains differ on the original, by their intervals, are in the
    same order on the clone."""
    known = [each for each in changes if each.original and each.clone]
    return all(_is_in_order(*pair) for pair in permutations(known, 2))


def _is_in_order(one: Transferred, other: Transferred) -> bool:
    assert one.original is not None
    assert one.clone is not None
    assert other.original is not None
    assert other.clone is not None
    is_worse = one.original.high < other.original.low
    return not is_worse or one.clone.ratio <= other.clone.ratio


def lines(changes: Sequence[Transferred]) -> list[str]:
    """Return the lines of a terminal for the changes of a load."""
    overlapping = sum(each.overlaps for each in changes)
    enough = "=" if overlapping >= OVERLAPS_MIN else "≠"
    order = "the same order" if in_order(changes) else "another order"
    found = [
        f"  {enough} the intervals of {overlapping} of {len(changes)} changes overlap,"
        f" the gains are in {order}"
    ]
    for each in changes:
        sign = "=" if each.overlaps else "≠"
        found.append(f"  {sign} {each.change}: {in_words(each.original)} / {in_words(each.clone)}")
    return found


def in_words(gain: Gain | None) -> str:
    """Return a gain with its interval."""
    return "no verdict" if gain is None else f"{gain.ratio:.2f} [{gain.low:.2f}, {gain.high:.2f}]"
