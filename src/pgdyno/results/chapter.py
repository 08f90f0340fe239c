"""The part of a result for a run that is a chapter of a story."""

from collections.abc import Mapping
from typing import Literal

from pgdyno.json_types import Json
from pgdyno.record.part import Part

Ending = Literal[
    "better",
    "worse",
    "mixed",
    "no difference",
    "inconclusive",
    "not comparable",
    "no verdict",
    "clean",
    "lost",
    "refused",
    "corrupt",
    "no-fault",
    "found",
    "cleared",
    "skipped",
]


def by_variant(endings: Mapping[str, str]) -> str:
    """Return the endings of a chapter in words, each after its variant: ``stopped/start: lost``."""
    return ", ".join(f"{name}: {end}" if name else end for name, end in endings.items())


class Chapter(Part):
    """A chapter of a story: its title and its outcome"""

    number: int
    title: str
    remark: str
    """The spec's comment on the chapter"""
    endings: dict[str, Ending]
    """The worst outcome of each variant's cuts; '' if there is only one. Of a run: by finding,
    whether it was found"""
    luck: tuple[str, ...]
    """Causes of a good outcome that may be absent the next time"""
    expected: str | dict[str, str] | None
    as_expected: bool | None
    """null: nothing was expected"""


class RecordedChapter(Chapter):
    """A chapter as recorded in its own run file"""

    of: Json
    """The fields of the whole story's spec"""
