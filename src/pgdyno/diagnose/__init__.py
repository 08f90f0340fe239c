"""Find the bottlenecks of a load in its run file, with evidence and possible remedies.

``diagnose`` ranks the findings of the signatures; ``verdict`` gives the first one. A signature is
added by adding one file to ``signatures/``.
"""

from pgdyno.diagnose._diagnosis import NOTHING, diagnose, verdict
from pgdyno.diagnose.finding import Evidence, Finding, Proposal

__all__ = ["NOTHING", "Evidence", "Finding", "Proposal", "diagnose", "verdict"]
