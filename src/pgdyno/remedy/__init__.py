"""The catalogue of remedies: the cost of each change, in durability and otherwise.

``assess`` returns what is known about any change, proposed by pgdyno or given by the user. A remedy
is added to a file of this directory; nothing else lists them.
``catalogue()`` returns all of them by id.
"""

from pgdyno.remedy._assessment import SAFE_FAULTS, Assessment, assess
from pgdyno.remedy._remedy import Case, Need, Remedy, Risk, catalogue, risk_of
from pgdyno.remedy.circumstances import Circumstances, circumstances, circumstances_recorded
from pgdyno.remedy.ordering import Promise

__all__ = [
    "SAFE_FAULTS",
    "Assessment",
    "Case",
    "Circumstances",
    "Need",
    "Promise",
    "Remedy",
    "Risk",
    "assess",
    "catalogue",
    "circumstances",
    "circumstances_recorded",
    "risk_of",
]
