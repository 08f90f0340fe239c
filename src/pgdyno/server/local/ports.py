"""Ports on loopback that nothing uses."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

_PORT_MIN = 10_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(number: int) -> list[int]:
    """Return that many different ports; another program may still take one before it is used.

    They are below those that Linux gives to outgoing connections, of which one could take a port
    that was free a moment ago.
    """
    first_given = int(_RANGE.read_text().split()[0])
    port_max = first_given if first_given > 2 * _PORT_MIN else 1 << 16
    # Not the module's own generator, which a program may have seeded alike in several processes.
    generator = random.SystemRandom()
    with ExitStack() as stack:
        found: list[int] = []
        while len(found) < number:
            port = generator.randrange(_PORT_MIN, port_max)
            probe = stack.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
        return found
