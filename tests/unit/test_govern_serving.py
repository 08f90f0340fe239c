"""The governor's HTTP server: whom it answers, what it refuses, and how."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pgdyno.errors import UsageError
from pgdyno.govern import Governor
from pgdyno.govern._serving import _READERS_MAX, serving
from pgdyno.govern._state import Board
from pgdyno.govern.deciding import AgeMarks
from pgdyno.live import open_endpoint
from pgdyno.spec.address import NOT_MEANT, Address, is_meant_for

HERE = Address("127.0.0.1", 0)
LINE = 65_537
"""Bytes of a line that is too long by one; all are read, so that the connection is not reset."""


@pytest.fixture
def port() -> Iterator[int]:
    """A server that knows nothing yet, and lets loaders go on."""
    with serving(Board("postgresql://u@h/shop", AgeMarks(), 10.0, "go"), HERE) as url:
        yield int(url.rpartition(":")[2])


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, Any, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        return answer.status, answer.headers["Content-Type"], json.loads(body) if body else None
    finally:
        connection.close()


def say(port: int, text: str) -> tuple[str, Any]:
    """Send bytes; return the line of the status, and the JSON of the answer."""
    with socket.create_connection(("127.0.0.1", port)) as conn:
        conn.sendall(text.encode())
        with conn.makefile("rb") as file:
            head, _, body = file.read().partition(b"\r\n\r\n")
    return head.decode().splitlines()[0], json.loads(body)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "10.1.2.3", "[::2]", "", "["])
def test_a_request_that_is_meant_for_another_server_is_refused(port: int, host: str) -> None:
    for path in ("/decision", "/wait", "/stream", "/other"):
        status, kind, said = ask(port, path, Host=host)
        assert (status, kind) == (421, "application/json")
        assert said == {"error": NOT_MEANT}


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.:1", "127.0.0.1", "127.1.2.3:9", "[::1]"])
def test_loopback_has_several_names(port: int, host: str) -> None:
    assert ask(port, "/decision", Host=host)[0] == 200


def test_a_second_host_does_not_hide_behind_the_first(port: int) -> None:
    line, _ = say(port, "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n"
                        "Connection: close\r\n\r\n")  # fmt: skip
    assert " 421 " in line


@pytest.mark.parametrize(
    ("listening", "asked", "meant"),
    [
        ("db.example.com", "db.example.com:9188", True),
        ("db.example.com", "evil.example", False),
        ("0.0.0.0", "me.example.com", True),
        ("0.0.0.0", "192.0.2.7:9188", True),
        ("0.0.0.0", "governor:9188", True),
        ("0.0.0.0", "evil.example", False),
        ("::", "[2001:db8::1]:9188", True),
        ("127.0.0.1", "me.example.com", False),
        ("127.0.0.1", None, True),
    ],
    ids=str,
)
def test_other_addresses_have_other_names(listening: str, asked: str, meant: bool) -> None:
    assert is_meant_for(Address(listening, 9188), "me.example.com", asked) is meant


def test_metrics_are_not_for_web_pages_either() -> None:
    with open_endpoint(HERE) as (_, url):
        port = int(url.removesuffix("/metrics").rpartition(":")[2])
        status, kind, _ = ask(port, "/metrics", Host="evil.example")
        assert (status, kind) == (421, "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == 200
        connection.close()


def test_streams_leave_room_for_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_READERS_MAX, "/stream", 5)
    with ExitStack() as open_ones:
        board = Board("postgresql://u@h/shop", AgeMarks(), 10.0, "go")
        port = int(open_ones.enter_context(serving(board, HERE)).rpartition(":")[2])
        for _ in range(_READERS_MAX["/stream"]):
            stream = http.client.HTTPConnection("127.0.0.1", port)
            open_ones.callback(stream.close)
            stream.request("GET", "/stream")
            answer = open_ones.enter_context(stream.getresponse())
            assert answer.status == 200
        status, _, said = ask(port, "/stream")
        assert (status, "/stream" in said["error"]) == (503, True)
        assert ask(port, "/decision")[0] == 200
        assert ask(port, "/wait")[0] == 200
        with Governor(f"http://127.0.0.1:{port}") as governor:
            assert governor.wait(timeout_s=60).details is not None


def test_head_is_answered_without_a_body(port: int) -> None:
    for path in ("/", "/decision", "/wait", "/stream"):
        status, kind, said = ask(port, path, "HEAD")
        assert (status, said) == (200, None)
        assert kind is not None


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("POST /decision HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
        ("GET / HTTP/1.1 more\r\n", 400),
        (f"{'x' * LINE}", 414),
        (f"GET / HTTP/1.1\r\n{'x' * LINE}", 431),
        ("GET http://[ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400),
    ],
    ids=["501", "400", "414", "431", "400-path"],
)
def test_refusals_are_json(port: int, request_text: str, status: int) -> None:
    line, said = say(port, request_text)
    assert f" {status} " in line
    assert said["error"]


@pytest.mark.parametrize("url", [5, None, "http://[", "http://h:x", "https://h", "x"], ids=repr)
def test_what_is_no_url_of_a_governor_is_refused(url: Any) -> None:
    with pytest.raises(UsageError, match="not the URL of a governor"):
        Governor(url)


@pytest.mark.parametrize("timeout_s", [float("nan"), "1"])
def test_a_timeout_that_is_no_number_is_refused(port: int, timeout_s: Any) -> None:
    with (
        Governor(f"http://127.0.0.1:{port}") as governor,
        pytest.raises(UsageError, match="not a number of seconds"),
    ):
        governor.wait(timeout_s=timeout_s)
