"""Programs that pgdyno runs: where the system has them, free ports for them, the processes of the
machine, and signals to many of them at once.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from signal import Signals

_SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_PORT_MIN = 10_000


def system_path() -> str:
    """Return the PATH with the directories of system programs at its end."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM_DIRECTORIES))


def find_program(name: str) -> str | None:
    """Return the path of a program, or ``None`` if it is not installed."""
    return shutil.which(name, path=system_path())


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


def process_directories() -> Iterator[Path]:
    """Yield the directory below /proc of each process, which may end at any moment.

    Reading in it then raises OSError. A pattern with a file's name would end the whole walk so.
    """
    return Path("/proc").glob("[0-9]*")


def send(pids: Iterable[int], number: Signals) -> None:
    """Send a signal to each of ``pids`` that still exists."""
    with _without_preemption():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


@contextlib.contextmanager
def _without_preemption() -> Iterator[None]:
    """Run this thread with real-time priority within the block, where permitted (root).

    A signalled process wakes up and may preempt the sender. On two busy cores, sending to 25
    processes took 15 ms, during which the last ones ran without the first: a server's backends
    without its WAL writer. Without preemption it takes 0.1 ms.
    """
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, policy, parameters)
