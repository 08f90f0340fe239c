"""The catalogue of remedies: what each change costs, in durability and otherwise.

``assess`` is the front door: it says of any change, proposed or a user's own, what it is known to
be. A remedy is added by adding one file to this folder with a ``REMEDIES`` tuple; nothing else
lists them. ``catalogue()`` gives all of them by id.
"""

from pgdyno.remedy._assessment import NOTHING_LOST, SAFE_FAULTS, Assessment, assess
from pgdyno.remedy._remedy import Case, Need, Remedy, Risk
from pgdyno.remedy.catalogue import catalogue
from pgdyno.remedy.circumstances import Circumstances, circumstances, circumstances_recorded

__all__ = [
    "NOTHING_LOST",
    "SAFE_FAULTS",
    "Assessment",
    "Case",
    "Circumstances",
    "Need",
    "Remedy",
    "Risk",
    "assess",
    "catalogue",
    "circumstances",
    "circumstances_recorded",
]
