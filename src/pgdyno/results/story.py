"""The result of ``pgdyno story``."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict

from pgdyno.results.chapter import Chapter
from pgdyno.results.common import Effect, Part
from pgdyno.results.compare import BothSides
from pgdyno.results.drill import Summary


class Compared(Part):
    """The figures of a comparison"""

    throughput_tps: BothSides | None
    effect: Effect | None


class FinishedChapter(Chapter):
    """A chapter with its run file and its figures"""

    run_file: str
    trustworthy: bool
    kind: Literal["comparison", "drill"]
    sentences: tuple[str, ...]
    distrust: tuple[str, ...]
    """The reasons why the figures cannot be trusted; empty if there are none"""
    facts: Compared | Summary


class StoryResult(Part):
    model_config = ConfigDict(title="pgdyno story --format json")

    schema_version: Literal[1]
    story: str
    """The spec's name"""
    chapters: tuple[FinishedChapter, ...]
    page: str
    """The HTML page of all chapters"""
