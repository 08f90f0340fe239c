"""PostgreSQL servers: finding their programs, starting and ending them, changing their settings.

Importing this package loads neither psycopg nor anything else that is slow; the functions that
talk to a server do when called.
"""

from pgdyno.server.cluster import Cluster
from pgdyno.server.conninfo import ConnInfo
from pgdyno.server.installation import Installation, discover_installations, find_installation

__all__ = [
    "Cluster",
    "ConnInfo",
    "Installation",
    "discover_installations",
    "find_installation",
]
