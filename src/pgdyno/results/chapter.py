"""The part of a result that says which chapter of a story the run is."""

from __future__ import annotations

from typing import Any, Literal

from pgdyno.results.common import Part

Ending = Literal[
    "better",
    "worse",
    "no difference",
    "inconclusive",
    "not comparable",
    "no verdict",
    "clean",
    "lost",
    "refused",
    "corrupt",
    "no-fault",
]


class Chapter(Part):
    """A chapter of a story: its title, and how it ended"""

    number: int
    title: str
    remark: str
    """The spec's comment on the chapter"""
    endings: dict[str, Ending]
    """By variant of the fault, the worst of its cuts; '' where there is only one"""
    luck: tuple[str, ...]
    """Causes that may be absent the next time, so that a good end proves less than it seems to"""
    expected: str | dict[str, str] | None
    as_expected: bool | None
    """null: nothing was expected"""


class RecordedChapter(Chapter):
    """A chapter as its own run file has it"""

    of: dict[str, Any]
    """The fields of the whole story's spec"""
