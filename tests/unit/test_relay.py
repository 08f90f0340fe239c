"""The relay before a standby: late, in order, held, let go, and ended with what that loses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from pgdyno.server.replication._relay import Relay

FAR_S = 300
"""For what hangs."""


@pytest.fixture
def far() -> Iterator[socket.socket]:
    """What the relay leads to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(FAR_S)
        yield listener


class Link:
    """One connection through a relay, both ends in hand."""

    def __init__(self, far: socket.socket, *, delay_ms: float = 0.0) -> None:
        self.relay = Relay(far.getsockname(), delay_ms=delay_ms)
        self.near = socket.create_connection(("127.0.0.1", self.relay.port), timeout=FAR_S)
        self.far, _ = far.accept()
        self.far.settimeout(FAR_S)

    def close(self) -> None:
        self.near.close()
        self.far.close()
        self.relay.close()


@pytest.fixture
def link(far: socket.socket) -> Iterator[Link]:
    link = Link(far, delay_ms=5)
    yield link
    link.close()


def received(end: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := end.recv(1 << 20)):
        data += more
    return data


def nothing_comes(end: socket.socket) -> bool:
    end.settimeout(0.1)
    try:
        return not end.recv(1)
    except TimeoutError:
        return True
    finally:
        end.settimeout(FAR_S)


def test_both_ways_in_order_more_than_buffers_hold(link: Link) -> None:
    there, back = bytes(range(256)) * 20_000, b"answer" * 100_000
    sender = threading.Thread(target=link.near.sendall, args=(there,))
    sender.start()
    link.far.sendall(back[:6])
    assert received(link.far, len(there)) == there
    link.far.sendall(back[6:])
    assert received(link.near, len(back)) == back
    sender.join()


def test_held_until_released(link: Link) -> None:
    link.relay.hold()
    link.near.sendall(b"late")
    assert nothing_comes(link.far)
    link.relay.delay_ms = 0
    link.relay.release()
    assert received(link.far, 4) == b"late"


def test_what_was_under_way_when_a_peer_ended_still_arrives(link: Link) -> None:
    link.near.sendall(b"last words")
    link.near.close()
    assert received(link.far, 100) == b"last words"


def test_held_it_is_lost_with_the_peer(link: Link) -> None:
    link.relay.hold()
    link.near.sendall(b"last words")
    link.near.close()
    assert received(link.far, 100) == b""


def test_a_relay_whose_thread_ends_before_it_is_woken_is_closed(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake, thread = link.relay._wake, link.relay._thread

    def woken_late() -> None:
        link.near.close()
        thread.join(FAR_S)
        assert not thread.is_alive()
        wake()

    monkeypatch.setattr(link.relay, "_wake", woken_late)
    link.relay.close()


def test_nothing_is_left_of_a_closed_relay(far: socket.socket) -> None:
    before = set(threading.enumerate())
    link = Link(far)
    assert set(threading.enumerate()) - before
    link.relay.close()
    link.relay.close()
    assert received(link.near, 1) == b""
    assert not set(threading.enumerate()) - before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", link.relay.port), timeout=FAR_S)
    link.close()


def test_a_far_end_that_is_gone_ends_the_connection() -> None:
    with socket.socket() as gone:
        # Nobody listens there, and nobody else can.
        gone.bind(("127.0.0.1", 0))
        relay = Relay(gone.getsockname())
        with socket.create_connection(("127.0.0.1", relay.port), timeout=FAR_S) as near:
            assert received(near, 1) == b""
        relay.close()
