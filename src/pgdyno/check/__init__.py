"""``pgdyno check``: problems of a server under the load of others. Read-only, without a load."""

from pgdyno.check._reach import Reached, Where, answering, check_same_server, reach, session

__all__ = ["Reached", "Where", "answering", "check_same_server", "reach", "session"]
