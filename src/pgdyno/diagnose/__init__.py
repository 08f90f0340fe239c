"""Findings from a run file: the bottleneck, its evidence, and proposed changes.

``diagnose`` ranks what the signatures find; ``verdict`` is its first line. A signature is added by
adding one file to ``signatures/``.
"""

from pgdyno.diagnose._diagnosis import NOTHING, diagnose, too_short, verdict
from pgdyno.diagnose.finding import Evidence, Finding, Proposal

__all__ = ["NOTHING", "Evidence", "Finding", "Proposal", "diagnose", "too_short", "verdict"]
