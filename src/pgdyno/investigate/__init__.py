"""The procedures of ``pgdyno run``, ``compare`` and ``investigate``.

``observe`` runs a spec and diagnoses it; ``compare`` measures the effect of one change in a trial;
``investigate`` repeats diagnosis and trials of remedies.
"""

from pgdyno.investigate._loop import investigate
from pgdyno.investigate.observe import observe
from pgdyno.trial.compare import compare

__all__ = ["compare", "investigate", "observe"]
