"""``pgdyno check``: problems of a server under the load of others. Read-only, without a load."""

from pgdyno.check._reach import Reached, Where, answering, check_same_server, reach, session
from pgdyno.check._run_file import temporary_run_file

__all__ = [
    "Reached",
    "Where",
    "answering",
    "check_same_server",
    "reach",
    "session",
    "temporary_run_file",
]
