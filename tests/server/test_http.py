"""Requests by HTTP: on a real web server, and on sockets that misbehave. Every request of a load is
in the server's notes, and every one that fails is in the ledger, by its kind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_runs import Run
from tls_files import Authority

from pgdyno._engine import Histogram
from web_servers import Shop, misbehaving, shop

pytestmark = pytest.mark.server

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


@pytest.fixture(scope="module")
def web() -> Iterator[Shop]:
    with shop() as running:
        yield running


def config(port: int, *scripts: str, http: dict[str, Any] | None = None, **group: Any) -> str:
    """A load of four clients that execute ``scripts`` on a web server of this machine."""
    fields = {
        "name": "g",
        "clients": 4,
        "http": {"host": "127.0.0.1", "port": port, **(http or {})},
        "scripts": [{"name": f"s{i}", "text": text} for i, text in enumerate(scripts)],
        **group,
    }
    return json.dumps({"seed": 1, "groups": [fields]})


def requests_of(run: Run) -> Counter[str]:
    counts: Counter[str] = Counter()
    for interval in run.intervals:
        for group in interval["groups"]:
            assert group["http"] is not None
            counts.update(group["http"])  # type: ignore[arg-type]
    return counts


def statements_of(run: Run) -> dict[str, int]:
    done: Counter[str] = Counter()
    for interval in run.intervals:
        for row in interval["statements"]:
            done[row["statement"]] += row["done"]
    return done


def loaded(port: int, *scripts: str, **keys: Any) -> Run:
    """A load that was stopped once it had done enough, its ledger checked."""
    with Run(config(port, *scripts, **keys)) as run:
        run.wait_for(lambda run: run.total["done"] + run.total["failed"] >= 30)
    run.assert_balanced()
    return run


POOL = {"max": 2}
OPEN = {
    "process": "poisson",
    "profile": {
        "kind": "segments",
        "segments": [{"duration_ms": 1000, "rate_from": 300, "rate_to": 300}],
    },
    "when_busy": "queue",
}
WAYS: dict[str, dict[str, Any]] = {
    "own": {},
    "pool": {"pool": POOL},
    "open": {"arrival": OPEN},
    "open-pool": {"arrival": OPEN, "pool": POOL},
    "again": {"connection": {"reconnect_every": 1}},
}


@pytest.mark.parametrize("page", ["/shop", "/close", "/chunks"])
@pytest.mark.parametrize("way", WAYS)
def test_the_servers_notes_are_the_loads(web: Shop, page: str, way: str) -> None:
    web.requests.clear()
    run = loaded(web.port, f"\\get {page}\n", **WAYS[way])
    http = requests_of(run)
    assert run.total["failed"] == 0
    assert http["requests"] == web.requests[f"GET {page}"]
    # Those that wait for a connection of the pool at the end are cancelled, and were never sent.
    assert http["requests"] == run.total["sent"] <= run.total["done"] + run.total["cancelled"]
    assert http["status_2xx"] == run.total["done"]
    if page == "/close":
        assert http["reused"] == 0
        assert http["closed_by_server"] == run.total["done"]
    elif way != "again":
        assert http["requests"] - http["reused"] == run.total["connects"] <= 4
    first_byte, service = 0, 0
    for interval in run.intervals:
        for row in interval["statements"]:
            assert row["first_byte"] is not None
            first_byte += Histogram.decode(row["first_byte"]).count
            service += row["done"]
    assert first_byte == service == run.total["done"]


def test_a_session_extracts_sends_and_keeps_cookies(web: Shop) -> None:
    web.requests.clear()
    script = r"""
\set id 5 + 2
\get /login
\extract token json /token
\post /order?id=:id&t=:token
\header X-Test: number :id
\body token=:token&more=:id
\status 201
\contains "X-Test"
\get /never
"""
    run = loaded(web.port, script.replace('\\contains "X-Test"\n\\get /never\n', EXPECTED))
    assert run.total["failed"] == 0, run.errors
    assert web.requests["POST /order?id=7&t=a%26b%20c"] > 0


EXPECTED = r"""\contains "cookie": "sid=7"
\contains "type": "application/x-www-form-urlencoded", "test": "number 7"
\contains "body": "token=a%26b%20c&more=7"
\extract second json /items/1/id
\extract number header x-number
\extract code status
\extract method body "method": "([A-Z]+)"
\put /check
\body {"a": ":second :number :code :method :token"}
\status 2xx
\contains "type": "application/json"
\contains 42 17 201 POST a&b c
\get /logout
\get /after
\contains "cookie": null
"""


def test_redirects_are_requests_of_their_own(web: Shop) -> None:
    run = loaded(web.port, '\\get /hops/2\n\\follow\n\\contains "target": "/shop"\n')
    assert run.total["failed"] == 0, run.errors
    done, http = statements_of(run), requests_of(run)
    assert done["redirects of GET /hops/2"] == 3 * done["GET /hops/2"] > 0
    assert http["redirected"] == 3 * http["requests"] / 4
    # Without \follow the redirect is the response.
    run = loaded(web.port, "\\get /hops/2\n")
    assert requests_of(run)["status_3xx"] == run.total["done"]


FAILURES = {
    "http-503": "\\get /status/503\n",
    "http-404": "\\get /status/404\n\\status 200 5xx\n",
    "body-mismatch": "\\get /shop\n\\contains no such text\n",
    "extract-missing": "\\get /shop\n\\extract x body (no such) text\n",
    "redirect-loop": "\\get /hops/20\n\\follow\n",
    "redirect-elsewhere": "\\get /elsewhere\n\\follow\n",
    "script-error": "\\if false\n\\set x 1\n\\endif\n\\get /shop?:x\n",
}


@pytest.mark.parametrize("code", FAILURES)
def test_responses_that_are_not_wanted_fail_by_their_kind(web: Shop, code: str) -> None:
    run = loaded(web.port, FAILURES[code])
    assert set(run.errors) == {(code, False, False)}
    assert run.errors[code, False, False] == run.total["failed"] > 0
    assert run.total["done"] == 0


@pytest.mark.parametrize(
    ("code", "answer", "then"),
    [
        ("no-response", b"", "close"),
        ("truncated", OK + b"ab", "close"),
        ("reset", OK + b"ab", "reset"),
        ("bad-response", b"SSH-2.0-x\r\n", "keep"),
        ("bad-response", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "keep"),
        ("bad-response", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "keep"),
        ("timeout-first-byte", b"", "keep"),
        ("timeout-first-byte", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "keep"),
        ("timeout-body", OK + b"ab", "keep"),
    ],
)
def test_what_servers_do_wrong_is_told_apart(code: str, answer: bytes, then: str) -> None:
    timeouts = {"timeout_ms": 60} if code.startswith("timeout") else {}
    with misbehaving(answer, then=then) as port:
        run = loaded(port, "\\get /x\n", http=timeouts)
    assert run.total["failed"] > 0
    # One that resets may do so before its answer is read, and a slow one may not begin in time.
    also = {"reset", "timeout-first-byte"} if code == "timeout-body" else {"reset"}
    assert {each for each, *_ in run.errors} <= {code} | also
    assert run.errors[code, False, False] > 0
    assert sum(run.errors.values()) == run.total["failed"]


@pytest.mark.parametrize(
    ("answer", "then"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "close"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", "close"),
        (OK + b"hello, and more than that", "keep"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"hello", "keep"),
    ],
    ids=["until-close", "http-1.0", "too-much", "interim"],
)
def test_odd_responses_are_responses(answer: bytes, then: str) -> None:
    with misbehaving(answer, then=then) as port:
        run = loaded(port, "\\get /x\n\\contains hello\n")
    assert run.total["done"] > 0
    assert not run.errors
    if then == "keep":
        assert requests_of(run)["closed_by_server"] == 0, "nobody else closed it"


def test_a_request_that_a_closed_connection_took_is_sent_again_unless_it_changes_something() -> (
    None
):
    """A server that closes a connection without saying so has not seen the next request on it."""
    with misbehaving(OK + b"hello", then="keep", times=2) as port:
        run = loaded(port, "\\get /x\n")
        assert run.total["failed"] == 0
        assert run.total["retried"] > 0
        assert set(run.errors) == {("no-response", False, True)}
        run = loaded(port, "\\post /x\n\\body a\n")
    assert run.total["retried"] == 0
    assert run.errors["no-response", False, False] == run.total["failed"] > 0


def test_a_server_that_goes_away_is_told_from_one_that_answers_badly() -> None:
    with misbehaving(OK + b"hello") as port:
        run = Run(config(port, "\\get /x\n", clients=2))
        run.wait_for(lambda run: run.total["done"] > 5)
    with run:
        run.wait_for(lambda run: run.total["connect_failures"] > 3)
    run.assert_balanced()
    # A connection that waited to be accepted is reset, perhaps before the client saw it open.
    away = {"connect-refused", "connect-failed", "no-response", "reset"}
    assert {code for code, *_ in run.errors} <= away


def test_https_checks_the_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    certificate = authority.issue("server", "server", "IP:127.0.0.1")
    with shop(certificate) as web:
        tls: dict[str, Any] = {"tls": True, "ca_file": str(authority.certificate)}
        for http in (tls, {"tls": True, "verify": False}):
            run = loaded(web.port, "\\get /shop\n", "\\get /close\n", http=http)
            assert run.total["failed"] == 0, run.errors
            assert run.histogram("tls").count == run.total["connects"]
        other = Authority(tmp_path, "other")
        with pytest.raises(Exception, match="authority that is not trusted"):
            Run(config(web.port, "\\get /shop\n", http={**tls, "ca_file": str(other.certificate)}))
