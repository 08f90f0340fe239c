"""Parameters of this machine's kernel that root changes for a run, and their undo.

They are put back at the end, and also after ``kill -9``: as with the settings of a user's server, a
record is written before the first change, a guardian process restores when pgdyno has ended, and
what both left is restored by the next pgdyno. A value that others have set meanwhile stays.
"""

from pgdyno.kernel._changes import KernelChanges, restore_left_parameters
from pgdyno.kernel._parameters import CryptQueues, EitherFile, OneFile, Parameter, check_changeable

__all__ = [
    "CryptQueues",
    "EitherFile",
    "KernelChanges",
    "OneFile",
    "Parameter",
    "check_changeable",
    "restore_left_parameters",
]
