"""HTTP servers that no client can stop, by silence, by slowness or by numbers.

Each connection has a thread. A client has ``PATIENCE_S`` for its whole request, however slowly its
bytes come, and as long to take each part of an answer. At most ``SILENT_MAX`` connections may be
without a whole request: one more, and the oldest of them is closed. So whoever asks at once is
heard, and there are never more threads and open files than these and the answers in hand, whose
number each server limits by itself.
"""

from __future__ import annotations

import io
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer, ThreadingMixIn
from typing import Any
from urllib.parse import urlsplit

PATIENCE_S = 10.0
SILENT_MAX = 100


class GuardedServer(ThreadingMixIn, BaseServer):
    """Mixed into a server, before its class; the handler needs ``GuardedHandler``."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """No client has connected yet."""
        self._silent: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        super().__init__(*args, **kwargs)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a thread for a connection, and close the oldest silent one if there are too
        many."""
        with self._lock:
            self._silent[request] = None
            if len(self._silent) > SILENT_MAX:
                oldest = next(iter(self._silent))
                del self._silent[oldest]
                _end(oldest)
        super().process_request(request, client_address)

    def heard(self, request: socket.socket) -> None:
        """Take note of a whole request."""
        with self._lock:
            self._silent.pop(request, None)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self.heard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that leave in the middle of an answer."""


class GuardedHandler(BaseHTTPRequestHandler):
    """Mixed into the handler of a ``GuardedServer``, before its class."""

    server: GuardedServer
    timeout = PATIENCE_S

    def setup(self) -> None:
        """Read the request with one deadline for all of it."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Deadline(self.connection))

    def parse_request(self) -> bool:
        """Parse the request; from its end on, the client has time for the answer."""
        parsed = super().parse_request()
        self.server.heard(self.connection)
        self.connection.settimeout(PATIENCE_S)
        return parsed

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: clients ask often."""


class _Deadline(io.RawIOBase):
    """The bytes of a connection until a moment."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until_s = time.monotonic() + PATIENCE_S

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read, raising TimeoutError at the deadline."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the request did not come")
        self._connection.settimeout(left_s)
        return self._connection.recv_into(buffer)


def family_of(host: str) -> socket.AddressFamily:
    """Return the family of an address to listen on; a name is looked up, IPv4 first. Raises
    OSError."""
    if ":" in host:
        return socket.AF_INET6
    found = {each[0] for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    return socket.AF_INET6 if found == {socket.AF_INET6} else socket.AF_INET


def is_url(path: str) -> bool:
    """Return whether the target of a request can be parsed as a URL."""
    try:
        urlsplit(path)
    except ValueError:
        return False
    return True


def _end(connection: socket.socket) -> None:
    """End a connection whose thread reads from it; the thread closes it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # The client has left already.
