"""What two slices can differ in: one file for each dimension, and nothing else names them.

A dimension is added by adding one file to ``kinds/`` with a ``DIMENSION``: a :class:`Dimension`
says how its part of a :class:`~pgdyno.spec.Change` reads in a title and goes into a spec, what it
needs to be put in force, and how that is done. ``spec_with``, ``title_of`` and ``change_of`` are
the ways from a change to a spec, to a title, and from a user's words to a change.
"""

from pgdyno.dimension._changing import change_of, fields_with, is_key, spec_with, title_of
from pgdyno.dimension._dimension import Dimension, KeyDimension, Load, Need, Place, Server, Step
from pgdyno.dimension._listing import dimensions

__all__ = [
    "Dimension",
    "KeyDimension",
    "Load",
    "Need",
    "Place",
    "Server",
    "Step",
    "change_of",
    "dimensions",
    "fields_with",
    "is_key",
    "spec_with",
    "title_of",
]
