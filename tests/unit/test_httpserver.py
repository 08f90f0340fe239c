"""HTTP servers of pgdyno among clients that say nothing, or too slowly, or nonsense."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from patience import wait_until
from pgdyno import httpserver
from pgdyno.errors import SetupError
from pgdyno.govern._serving import serving
from pgdyno.govern._state import Board
from pgdyno.govern.deciding import AgeMarks
from pgdyno.live import _endpoint, open_endpoint
from pgdyno.spec.address import Address

PATHS = {"governor": "/decision", "metrics": "/metrics"}


@contextmanager
def listening(of: str, host: str = "127.0.0.1") -> Iterator[int]:
    """One of the two servers; yields its port."""
    with ExitStack() as held:
        if of == "governor":
            board = Board("postgresql://u@h/shop", AgeMarks(), 10.0, "go")
            url = held.enter_context(serving(board, Address(host, 0)))
        else:
            _, url = held.enter_context(open_endpoint(Address(host, 0)))
        yield int(url.removesuffix("/metrics").rpartition(":")[2])


@pytest.fixture(params=["governor", "metrics"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    with listening(request.param) as port:
        yield PATHS[request.param], port


def status_of(server: tuple[str, int], host: str = "127.0.0.1") -> int:
    path, port = server
    connection = http.client.HTTPConnection(host, port)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def is_closed(connection: socket.socket) -> bool:
    """Return whether the server has ended the connection."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_silent_clients_make_room_for_one_who_asks(
    server: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httpserver, "SILENT_MAX", 4)
    threads = threading.active_count()
    with ExitStack() as held:
        silent = [
            held.enter_context(socket.create_connection(("127.0.0.1", server[1])))
            for _ in range(12)
        ]
        for each in silent[::2]:
            with suppress(OSError):  # It may be closed already.
                each.sendall(b"GET / HTTP/1.1\r\nHost: local")
        assert [status_of(server) for _ in range(3)] == [200, 200, 200]
        wait_until(lambda: all(map(is_closed, silent[:-4])), "the oldest are closed")
        wait_until(lambda: threading.active_count() <= threads + 4, "their threads have ended")
    wait_until(lambda: threading.active_count() <= threads, "all have ended")


def test_a_client_that_sends_byte_by_byte_has_no_more_time_than_others(
    server: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httpserver, "PATIENCE_S", 0.3)
    with socket.create_connection(("127.0.0.1", server[1])) as slow:

        def is_over() -> bool:
            with suppress(OSError):
                slow.setblocking(True)
                slow.sendall(b"x")  # Far more often than each 0.3 s.
            return is_closed(slow)

        wait_until(is_over, "it is closed")
    assert status_of(server) == 200


def begun_stream(port: int) -> socket.socket:
    """A client that has the first byte of a stream, and takes hardly more. On a busy machine its
    request may come too late for so little patience; then it asks again."""
    while True:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        client.connect(("127.0.0.1", port))
        with suppress(OSError):
            client.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            if client.recv(1):
                return client
        client.close()


def test_a_client_that_takes_nothing_has_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpserver, "PATIENCE_S", 0.3)
    others = set(threading.enumerate())

    def answering() -> bool:
        threads = set(threading.enumerate()) - others
        return any("process_request_thread" in thread.name for thread in threads)

    with listening("governor") as port, begun_stream(port):
        assert answering()
        monkeypatch.setattr("pgdyno.govern._serving._HEARTBEAT_S", 0.0)
        wait_until(lambda: not answering(), "its thread has ended")


GARBAGE = (
    *(b"\x00\xff" * 500, b"\r\n\r\n", b"GET", b"\x16\x03\x01\x02\x00\x01\x00"),
    *(b"GET / HTTP/9.9\r\n\r\n", b"GET http://[ HTTP/1.1\r\n\r\n"),
)


def test_garbage_stops_nobody(server: tuple[str, int], capfd: pytest.CaptureFixture[str]) -> None:
    for garbage in GARBAGE:
        with socket.create_connection(("127.0.0.1", server[1])) as conn, suppress(ConnectionError):
            conn.sendall(garbage)
            conn.shutdown(socket.SHUT_WR)
            while conn.recv(4096):
                pass
        assert status_of(server) == 200, garbage
    assert capfd.readouterr().err == ""


def test_too_many_answers_at_the_same_time_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_endpoint, "ANSWERS_MAX", 0)
    with listening("metrics") as port:
        assert status_of(("/metrics", port)) == 503


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("of", PATHS)
def test_both_listen_on_ipv6(of: str) -> None:
    if not has_ipv6():
        with pytest.raises(SetupError), listening(of, "::1"):
            pass
        return
    with listening(of, "::1") as port:
        assert status_of((PATHS[of], port), "::1") == 200
