"""Stories: the chapters of a spec, carried out one after the other, and where luck had a part."""

from pgdyno.story._telling import SCHEMA_VERSION, tell

__all__ = ["SCHEMA_VERSION", "tell"]
