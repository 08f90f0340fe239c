"""``pgdyno check``: what ails a server under the load of others. Read-only, and without a load."""

from pgdyno.check._reach import Reached, Where, answering, reach, session
from pgdyno.check._severity import findings_at_least

__all__ = ["Reached", "Where", "answering", "findings_at_least", "reach", "session"]
