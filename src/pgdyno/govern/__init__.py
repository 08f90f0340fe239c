"""The transaction-ID governor: loaders slow down and pause before a server runs out of IDs.

``daemon`` looks at a server and decides; loaders ask it by HTTP, in SQL, or with ``Governor``:

>>> from pgdyno.govern import Governor
"""

from pgdyno.govern._client import Decision, Governor

__all__ = ["Decision", "Governor"]
