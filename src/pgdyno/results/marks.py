"""The marks of a governor, and the IDs that it looks at: in decisions and in results of runs."""

from typing import Literal

from pgdyno.record.part import Part

Of = Literal["transaction IDs", "multixacts", "multixact members"]


class GovernMarks(Part):
    low: int
    high: int
