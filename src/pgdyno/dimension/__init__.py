"""Dimensions in which two slices can differ: one file for each, and no list of them elsewhere.

To add a dimension, add an instance to a file of ``kinds/``. A :class:`Dimension` defines
how its part of a :class:`~pgdyno.spec.Change` appears in a title and is entered in a spec, what is
needed to apply it, and how it is applied. ``spec_with`` and ``title_of`` convert a change to a spec
and to a title; ``change_of`` converts a user's words to a change.
"""

from pgdyno.dimension._changing import change_of, fields_with, is_key, sides_of, spec_with, title_of
from pgdyno.dimension._dimension import (
    Context,
    Dimension,
    KeyDimension,
    Load,
    Need,
    ServerUnderLoad,
    Transition,
    dimensions,
)
from pgdyno.dimension._kernel import begin_kernel
from pgdyno.dimension.kinds.version import own_server

__all__ = [
    "Context",
    "Dimension",
    "KeyDimension",
    "Load",
    "Need",
    "ServerUnderLoad",
    "Transition",
    "begin_kernel",
    "change_of",
    "dimensions",
    "fields_with",
    "is_key",
    "own_server",
    "sides_of",
    "spec_with",
    "title_of",
]
