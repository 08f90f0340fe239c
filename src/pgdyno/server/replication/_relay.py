"""A TCP relay on loopback that delays or stalls the link between two servers.

Bytes are forwarded in order, in each direction, after a fixed delay; ``hold`` stalls the link until
``release``. A direction with more than 64 MB in its queue stops reading, so that the sender blocks
as on a slow link.

Data that a peer sent before it closed is still delivered, unless the relay is held: then it is
lost. The relay is a thread of pgdyno and ends with it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

_CHUNK_BYTES = 1 << 16
_QUEUED_BYTES_MAX = 64 << 20
_CONNECT_S_MAX = 10.0


@dataclass(eq=False)
class _Direction:
    """A direction of one connection, with the data received and not yet forwarded."""

    source: socket.socket
    sink: socket.socket
    queue: deque[tuple[float, memoryview]] = field(default_factory=deque)
    queued_bytes: int = 0
    ended: bool = False
    """True if the source has closed its end."""
    blocked: bool = False
    """True if the sink's send buffer is full."""

    @property
    def reads(self) -> bool:
        return not self.ended and self.queued_bytes < _QUEUED_BYTES_MAX

    def receive(self, due: float) -> None:
        """Queue data from the source."""
        data = self.source.recv(_CHUNK_BYTES)
        if not data:
            self.ended = True
            return
        self.queue.append((due, memoryview(data)))
        self.queued_bytes += len(data)

    def send_due(self, now: float) -> None:
        """Send the data that is due, as far as the sink accepts it."""
        self.blocked = False
        while self.queue and self.queue[0][0] <= now:
            due, data = self.queue[0]
            try:
                sent = self.sink.send(data)
            except BlockingIOError:
                self.blocked = True
                return
            self.queued_bytes -= sent
            if sent < len(data):
                self.queue[0] = (due, data[sent:])
            else:
                self.queue.popleft()

    def due_at(self) -> float | None:
        """Return the time at which queued data is due, or ``None``."""
        return self.queue[0][0] if self.queue and not self.blocked else None


_Link = tuple[_Direction, _Direction]
"""A connection: to the server, to the client."""


class Relay:
    """A relay from its own ``port`` on loopback to ``target`` (host, port), with a delay."""

    def __init__(self, target: tuple[str, int], *, delay_ms: float = 0.0) -> None:
        self._target = target
        self._delay_s = delay_ms / 1000
        self._held = False
        self._closing = False
        self._links: list[_Link] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    @property
    def delay_ms(self) -> float:
        """The delay in each direction, in milliseconds."""
        return self._delay_s * 1000

    @delay_ms.setter
    def delay_ms(self, delay_ms: float) -> None:
        """Set the delay of data received from now on; queued data keeps its time."""
        self._delay_s = delay_ms / 1000

    @property
    def held(self) -> bool:
        """True if nothing is forwarded."""
        return self._held

    def hold(self) -> None:
        """Forward nothing from now on."""
        self._held = True
        self._wake()

    def release(self) -> None:
        """Forward the queued data, and new data as usual."""
        self._held = False
        self._wake()

    def close(self) -> None:
        """Close all connections at once; queued data is lost."""
        if not self._closing:
            self._closing = True
            self._wake()
            self._thread.join()
            # Not by the thread, which may end before it is woken: that would be a broken pipe.
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    def _run(self) -> None:
        try:
            while not self._closing:
                self._poll()
        finally:
            for link in list(self._links):
                self._drop(link)
            self._selector.close()
            self._listener.close()

    def _poll(self) -> None:
        """Wait until data arrives or is due, and forward it."""
        for link in self._ready():
            try:
                alive = self._serve(link)
            except OSError:
                alive = False
            if not alive:
                self._drop(link)

    def _ready(self) -> set[_Link]:
        """Return the links with data that has arrived or is due, after a wait for one.

        To look at all links for each message costs a core at some 16 busy connections.
        """
        ready: set[_Link] = set()
        for key, _ in self._selector.select(self._sleep_s()):
            if key.fd == self._wake_read:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
                ready.update(self._links)
            elif key.fileobj is self._listener:
                self._accept()
            else:
                ready.add(key.data)
        if not self._held:
            now = time.monotonic()
            ready.update(link for at, link in self._due() if at <= now)
        return ready

    def _due(self) -> Iterator[tuple[float, _Link]]:
        for link in self._links:
            for direction in link:
                if (at := direction.due_at()) is not None:
                    yield at, link

    def _sleep_s(self) -> float | None:
        if self._held:
            return None
        due_at = min((at for at, _ in self._due()), default=None)
        return None if due_at is None else max(0.0, due_at - time.monotonic())

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            client, _ = self._listener.accept()
            try:
                server = socket.create_connection(self._target, timeout=_CONNECT_S_MAX)
            except OSError:
                client.close()
                return
            for end in (client, server):
                end.setblocking(False)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = _Direction(client, server), _Direction(server, client)
            self._links.append(link)
            self._watch(link)

    def _serve(self, link: _Link) -> bool:
        """Forward data in both directions; return ``False`` when the connection has ended."""
        now = time.monotonic()
        for direction in link:
            # A held link still reads, and discards what it read if the source closes.
            if direction.reads:
                with contextlib.suppress(BlockingIOError):
                    direction.receive(now + self._delay_s)
            if not self._held:
                direction.send_due(time.monotonic())
            if direction.ended and (self._held or not direction.queue):
                return False
        self._watch(link)
        return True

    def _watch(self, link: _Link) -> None:
        """Register each socket for the events that are awaited on it."""
        to_server, to_client = link
        for reading, writing in ((to_server, to_client), (to_client, to_server)):
            wanted = selectors.EVENT_READ if reading.reads else 0
            wanted |= selectors.EVENT_WRITE if writing.blocked and not self._held else 0
            self._set_events(reading.source, wanted, link)

    def _set_events(self, end: socket.socket, wanted: int, link: _Link) -> None:
        known = self._selector.get_map().get(end)
        if wanted == 0:
            if known is not None:
                self._selector.unregister(end)
        elif known is None:
            self._selector.register(end, wanted, link)
        elif known.events != wanted:
            self._selector.modify(end, wanted, link)

    def _drop(self, link: _Link) -> None:
        self._links.remove(link)
        for direction in link:
            self._set_events(direction.source, 0, link)
            direction.source.close()
