"""Stories: the chapters of a spec, carried out one after the other, and where luck had a part."""

from pgdyno.story._result import check_outcomes, story_result
from pgdyno.story._telling import tell

__all__ = ["check_outcomes", "story_result", "tell"]
