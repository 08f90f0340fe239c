"""Poolers and proxies in front of the server, started and supervised by pgdyno.

``_gateway.py`` has what stands in front of one server; ``kinds/`` one file for each program. They
run under the account that runs servers, in a directory of their own, and end with pgdyno.
"""

from pgdyno.pooler._gateway import (
    Gateway,
    check_pooler,
    moves,
    server_connections,
    warnings,
    without_effect,
)
from pgdyno.pooler._kind import Ineffective

__all__ = [
    "Gateway",
    "Ineffective",
    "check_pooler",
    "moves",
    "server_connections",
    "warnings",
    "without_effect",
]
