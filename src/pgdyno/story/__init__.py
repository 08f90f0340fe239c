"""Stories: the chapters of a spec, run in order, and the luck in their outcomes."""

from pgdyno.story._result import check_outcomes, story_result
from pgdyno.story._running import run_story

__all__ = ["check_outcomes", "run_story", "story_result"]
