"""The result of ``pgdyno story``."""

from typing import Literal

from pydantic import ConfigDict

from pgdyno.record.part import Part
from pgdyno.results.chapter import Chapter
from pgdyno.results.common import BothSides, Effect
from pgdyno.results.drill import Summary


class Compared(Part):
    """The figures of a comparison"""

    throughput_tps: BothSides | None
    effect: Effect | None


class Observed(Part):
    """The figures of a run"""

    throughput_tps: float
    statements_per_s: float
    connections: float
    """Of the server, in use by clients at once, on average"""
    connections_idle: float
    """Of these, idle"""


class FinishedChapter(Chapter):
    """A chapter with its run file and its figures"""

    run_file: str
    trustworthy: bool
    kind: Literal["comparison", "drill", "run"]
    sentences: tuple[str, ...]
    distrust: tuple[str, ...]
    """The reasons why the figures cannot be trusted; empty if there are none"""
    facts: Compared | Summary | Observed


class StoryResult(Part):
    model_config = ConfigDict(title="pgdyno story --format json")

    schema_version: Literal[1]
    story: str
    """The spec's name"""
    chapters: tuple[FinishedChapter, ...]
    page: str
    """The HTML page of all chapters"""
