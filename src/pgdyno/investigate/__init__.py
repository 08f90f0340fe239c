"""The loop of the main job, and its two smaller siblings: one diagnosed run, one comparison.

``observe`` is one run with its diagnosis; ``compare`` answers one question with a trial of pairs;
``investigate`` goes on from a diagnosis to remedies, proving each by a trial.
"""

from pgdyno.investigate._loop import investigate
from pgdyno.investigate.observe import observe
from pgdyno.trial.compare import compare

__all__ = ["compare", "investigate", "observe"]
