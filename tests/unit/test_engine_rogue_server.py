"""A server that misbehaves on the wire costs the client its connection, and the load nothing else.

The other end is a socket of the test's own: it lets everybody in, then does what no PostgreSQL
would do. What PostgreSQL itself does is tested with PostgreSQL.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from patience import PATIENCE_S, wait_until
from pgdyno._engine import EngineError, Histogram, Load

if TYPE_CHECKING:
    from pgdyno._engine import Interval


def message(tag: bytes, body: bytes) -> bytes:
    return tag + struct.pack("!I", len(body) + 4) + body


GROUP = {"name": "g", "scripts": [{"name": "s", "text": "select 1;"}]}
LOGIN = message(b"R", struct.pack("!I", 0)) + message(b"Z", b"I")
READY = message(b"C", b"SELECT 1\0") + message(b"Z", b"I")
SETTING = message(b"S", b"TimeZone\0UTC\0")
NOTIFICATION = message(b"A", b"\0\0\0\x01channel\0payload\0")
NOTICE = message(b"N", b"SNOTICE\0C00000\0Mn\0\0")


@contextmanager
def listening(serve: Callable[[socket.socket, int], None]) -> Iterator[int]:
    """A port on loopback; ``serve`` gets each connection and its number, each in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stopped = threading.Event()

        def accept() -> None:
            number = 0
            while not stopped.is_set():
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=guarded, args=(connection, number), daemon=True).start()
                number += 1

        def guarded(connection: socket.socket, number: int) -> None:
            with connection:
                connection.settimeout(PATIENCE_S)
                with suppress(OSError):
                    serve(connection, number)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            stopped.set()
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def config(port: int, **keys: object) -> str:
    load = {
        "target": {
            "hosts": [{"host": "127.0.0.1", "port": port}],
            "user": "u",
            "database": "d",
            "sslmode": "disable",
        },
        "protocol": "simple",
        "backoff_ms_max": 60,
        "groups": [
            {"name": "g", "clients": 2, "scripts": [{"name": "s", "text": "select 1;"}]},
        ],
    }
    return json.dumps(load | keys)


def log_in(connection: socket.socket) -> None:
    (length,) = struct.unpack("!I", received(connection, 4))
    received(connection, length - 4)
    connection.sendall(LOGIN)


def received(connection: socket.socket, count: int) -> bytes:
    """So many bytes; ConnectionError if the client ends the connection before, as a load does that
    is stopped while it connects."""
    data = b""
    while len(data) < count:
        if not (more := connection.recv(count - len(data))):
            raise ConnectionError
        data += more
    return data


def hold(connection: socket.socket) -> None:
    """Answer nothing until the client ends the connection."""
    while connection.recv(4096):
        pass


MISDEEDS = {
    "garbage": b"\xff\xfe\xfd" * 50,
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "an impossible length": b"Z\0\0\0\0",
    "a message of 1 GB": b"E\x3f\xff\xff\xff" + b"S" * 1000,
    "half a message": READY[:7],
    "an answer too many": READY + READY,
    "a row at the wrong time": message(b"Z", b"I") + message(b"D", b"\0\0"),
    "an unknown state": message(b"Z", b"?"),
    "an error without a code": message(b"E", b"Mwhat\0\0"),
    "nothing": b"",
    "a copy into the server and no more": message(b"G", b"\0\0\0"),
    "an answer during a copy": message(b"G", b"\0\0\0") + READY,
    "a copy without a format": message(b"G", b""),
    "a copy both ways": message(b"W", b"\0\0\0"),
    "half a copy out": message(b"H", b"\0\0\0") + message(b"d", b"1\n") + b"d\0\0\x10\0half",
    "a log-in again": LOGIN,
    "a key in between": message(b"K", b"\0" * 8),
    "errors without end": message(b"E", b"SERROR\0C22012\0Mm\0\0") * 500,
    "a column that is too short": message(b"T", b"\0\x02a\0"),
}


@pytest.mark.parametrize("misdeed", MISDEEDS)
def test_a_misdeed_costs_one_connection(misdeed: str) -> None:
    def serve(connection: socket.socket, number: int) -> None:
        log_in(connection)
        while connection.recv(4096):
            # Every other connection after the first three behaves.
            if number >= 3 and number % 2:
                connection.sendall(READY)
                time.sleep(0.002)
            else:
                connection.sendall(MISDEEDS[misdeed])
                connection.shutdown(socket.SHUT_WR)
                time.sleep(0.02)
                return

    with listening(serve) as port:
        intervals = run(config(port), lambda t: t["reconnects"] >= 2 and t["done"] >= 20)
    codes = {row["sqlstate"] for interval in intervals for row in interval["errors"]}
    # What it says against a statement counts with its own code.
    said = {"22012"} if misdeed == "errors without end" else set()
    assert codes <= {"protocol-error", "connection-lost"} | said
    assert_balanced(intervals)


@pytest.mark.parametrize("flood", [NOTICE, SETTING, NOTIFICATION])
def test_a_flood_of_what_nobody_asked_for_is_put_up_with(flood: bytes) -> None:
    def serve(connection: socket.socket, _number: int) -> None:
        log_in(connection)
        connection.sendall(flood * 2000)
        while connection.recv(4096):
            connection.sendall(flood * 2000 + READY)

    with listening(serve) as port:
        intervals = run(config(port), lambda t: t["done"] >= 20)
    assert not [row for interval in intervals for row in interval["errors"]]


def test_answers_in_single_bytes_are_put_together() -> None:
    def serve(connection: socket.socket, _number: int) -> None:
        log_in(connection)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while connection.recv(4096):
            for byte in NOTICE + READY:
                connection.sendall(bytes([byte]))

    with listening(serve) as port:
        intervals = run(config(port), lambda t: t["done"] >= 20)
    assert not [row for interval in intervals for row in interval["errors"]]
    assert_balanced(intervals)


def test_a_server_that_never_answers_a_login_times_out() -> None:
    with (
        listening(lambda connection, _: hold(connection)) as port,
        pytest.raises(EngineError) as caught,
    ):
        Load(config(port, connect_timeout_ms=100)).start()
    assert caught.value.code == "connection-failed"
    assert "no answer in time" in caught.value.message


def test_a_login_that_hangs_later_is_tried_again() -> None:
    come: list[int] = []

    def serve(connection: socket.socket, number: int) -> None:
        come.append(number)
        if number in (1, 2):
            hold(connection)
            return
        log_in(connection)
        while connection.recv(4096):
            connection.sendall(READY)

    with listening(serve) as port:
        intervals = run(
            config(port, connect_timeout_ms=1500), lambda t: t["connects"] == 2 and t["done"] > 5
        )
    errors = [row for interval in intervals for row in interval["errors"]]
    assert sum(row["count"] for row in errors) == tries_in_vain(come) >= 2
    assert {(row["sqlstate"], row["statement"]) for row in errors} == {
        ("connect-timeout", "connect")
    }


def tries_in_vain(come: list[int]) -> int:
    """Of the connections that came, by their numbers from 0: all but the first, which is the check
    that the server is there, and those of the two clients that were let in."""
    return max(come) + 1 - 3


LOGIN_MISDEEDS = {
    "a flood of notices": NOTICE * 5000,
    "a flood of settings": SETTING * 5000,
    "a message of 1 GB": b"E\x3f\xff\xff\xff" + b"S" * 100_000,
    "a row": message(b"D", b"\0\0"),
    "half of being let in": LOGIN[:10],
    "a request that cannot be": message(b"R", struct.pack("!I", 99)),
    "another version, unasked": message(b"v", struct.pack("!II", 3 << 16, 0)),
}


@pytest.mark.parametrize("misdeed", LOGIN_MISDEEDS)
def test_a_misdeed_at_the_login_ends_in_an_error(misdeed: str) -> None:
    """When the load starts, where it is told, and later, where it is counted and tried again."""
    come: list[int] = []

    def serve(connection: socket.socket, number: int) -> None:
        come.append(number)
        if spared(number):
            log_in(connection)
            while connection.recv(4096):
                connection.sendall(READY)
        else:
            connection.sendall(LOGIN_MISDEEDS[misdeed])
            hold(connection)

    def spared(number: int) -> bool:
        return number == 0 or number > 3

    with listening(serve) as port:
        intervals = run(
            config(port, connect_timeout_ms=1500), lambda t: t["connects"] == 2 and t["done"] > 5
        )
    errors = [row for interval in intervals for row in interval["errors"]]
    assert sum(row["count"] for row in errors) == tries_in_vain(come) >= 3
    assert {row["statement"] for row in errors} == {"connect"}
    codes = {"protocol-error", "connect-timeout", "authentication-failed", "connect-failed"}
    assert {row["sqlstate"] for row in errors} <= codes
    assert_balanced(intervals)


def test_what_is_no_postgresql_is_told_at_the_start() -> None:
    def serve(connection: socket.socket, _number: int) -> None:
        connection.sendall(MISDEEDS["another protocol"])

    with listening(serve) as port, pytest.raises(EngineError) as caught:
        Load(config(port)).start()
    assert caught.value.code == "protocol-error"
    assert caught.value.hint == "is it a PostgreSQL server?"


def run(load_config: str, enough: Callable[[dict[str, int]], bool]) -> list[Interval]:
    """Run a load until its counts are enough."""
    load = Load(load_config)
    load.start()
    intervals: list[Interval] = []

    def are_enough() -> bool:
        intervals.extend(load.poll())
        if enough(totals(intervals)):
            return True
        load.end_interval(None)
        return False

    wait_until(are_enough, lambda: (totals(intervals), intervals[-1:]))
    load.stop(1000)
    return intervals + load.poll()


def totals(intervals: list[Interval]) -> dict[str, int]:
    rows = [row for interval in intervals for row in (*interval["scripts"], *interval["groups"])]
    keys = ("intended", "done", "failed", "cancelled", "connects", "reconnects")
    return {key: sum(row.get(key, 0) for row in rows) for key in keys}  # type: ignore[misc]


def assert_balanced(intervals: list[Interval]) -> None:
    total = totals(intervals)
    backlog = sum(row["backlog"] for row in intervals[-1]["scripts"])
    assert total["intended"] == total["done"] + total["failed"] + total["cancelled"] + backlog


NINE = GROUP | {"clients": 9}


@pytest.mark.parametrize("pool", [None, {"max": 9}])
def test_so_many_connections_are_on_their_way_at_once(pool: object) -> None:
    """A server that answers no log-in but the first, which is the check that it is there."""
    waiting: list[int] = []
    refusing = threading.Event()

    def serve(connection: socket.socket, number: int) -> None:
        if number == 0:
            log_in(connection)
            return
        waiting.append(number)
        refusing.wait(PATIENCE_S)

    keys = {"connecting_max": 4, "connect_timeout_ms": 1000 * PATIENCE_S, "threads": 2}
    with listening(serve) as port:
        load = Load(config(port, **keys, groups=[NINE | {"pool": pool}]))
        load.start()
        wait_until(lambda: len(waiting) >= 4, "the first four come")
        time.sleep(0.1)
        assert len(waiting) == 4
        refusing.set()
        wait_until(lambda: len(waiting) >= 9, "those that failed make room for the others")
        assert load.connections() == 0
        load.stop(0)


@pytest.mark.parametrize("pool", [None, {"max": 9}])
def test_connections_that_give_up_make_room_for_others(pool: object) -> None:
    waiting: list[int] = []

    def serve(connection: socket.socket, number: int) -> None:
        if number == 0:
            log_in(connection)
            return
        waiting.append(number)
        hold(connection)

    keys = {"connecting_max": 4, "connect_timeout_ms": 1500, "threads": 2}
    with listening(serve) as port:
        load = Load(config(port, **keys, groups=[NINE | {"pool": pool}]))
        load.start()
        wait_until(lambda: len(waiting) >= 9, "more than four come")
        assert load.connections() == 0
        load.stop(0)


def test_connections_that_transactions_make_are_not_held_back() -> None:
    """They are the load: with fewer at once, it would not be what was asked for."""
    waiting: list[int] = []

    def serve(connection: socket.socket, number: int) -> None:
        if number == 0:
            log_in(connection)
            return
        waiting.append(number)
        while connection.recv(4096):
            pass

    keys = {"connecting_max": 2, "connect_timeout_ms": 1000 * PATIENCE_S, "threads": 2}
    group = NINE | {"connection": {"reconnect_every": 1}}
    with listening(serve) as port:
        load = Load(config(port, **keys, groups=[group]))
        load.start()
        wait_until(lambda: len(waiting) == 9, "all clients knock, however few get in")
        load.stop(0)


def test_waiting_for_a_connection_counts_as_connecting_from_the_first_try() -> None:
    """The pause after a failure is the connection's doing, not the client's."""
    pause_ms = 2000  # Far more than a busy machine lets a client wait for a core.

    def serve(connection: socket.socket, number: int) -> None:
        if number == 1:
            return
        log_in(connection)
        while connection.recv(4096):
            connection.sendall(READY)

    group = GROUP | {"clients": 1, "connection": {"reconnect_every": 1}}
    keys = {"backoff_ms_min": pause_ms, "backoff_ms_max": pause_ms, "protocol": "simple"}
    with listening(serve) as port:
        intervals = run(config(port, groups=[group], **keys), lambda t: t["done"] > 0)
    assert_balanced(intervals)
    connect, lag = Histogram(), Histogram()
    for row in (row for interval in intervals for row in interval["scripts"]):
        connect.add_encoded(row["connect"])
        lag.add_encoded(row["client_lag"])
    assert connect.max >= pause_ms / 2 * 0.99e6
    assert lag.max < connect.max
