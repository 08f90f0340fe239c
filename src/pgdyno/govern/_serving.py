"""Decisions by HTTP: ``/decision``, ``/wait`` for shell loops, and ``/stream`` for the library.

A stream ends with the daemon's process, also on kill -9, so that whoever reads it knows at once
that there is nobody left who decides. Each kind of question has a number of readers of its own, so
that many streams do not keep others from asking.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

from pgdyno.errors import SetupError
from pgdyno.govern._state import Board
from pgdyno.httpserver import GuardedHandler, GuardedServer, family_of, is_url
from pgdyno.spec.address import NOT_MEANT, Address, is_meant_for

_WAIT_S_MAX = 30.0
"""Longest answer of /wait: programs between client and daemon end connections that are silent."""
_WORKED_S_MAX = 60.0
"""Work before one question that is rested for; longer batches are stopped by the pause alone."""
_READERS_MAX = {"/stream": 400, "/wait": 200, "/decision": 100}
"""Clients at the same time, each with a thread and a connection; together with the silent ones less
than the usual limit of 1,024 open files."""
_HEARTBEAT_S = 1.0


class _DecisionServer(GuardedServer, HTTPServer):
    board: Board
    address: Address
    readers: dict[str, threading.BoundedSemaphore]


class _DecisionHandler(GuardedHandler, BaseHTTPRequestHandler):
    server: _DecisionServer

    def do_GET(self) -> None:
        try:
            self._answer()
        except OSError:
            self.close_connection = True  # The client has left.

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self) -> None:
        answers = {"/decision": self._decision, "/wait": self._wait, "/stream": self._stream}
        hosts: list[str | None] = [*self.headers.get_all("Host", [])]
        machine = self.server.server_name
        if not all(is_meant_for(self.server.address, machine, host) for host in hosts):
            self._reply(421, {"error": NOT_MEANT})
            return
        if not is_url(self.path):
            self._reply(400, {"error": "the path is not one of a URL"})
            return
        url = urlsplit(self.path)
        path = "/decision" if url.path == "/" else url.path
        if path not in answers:
            self._reply(404, {"error": "there are /decision, /wait and /stream"})
        elif not self.server.readers[path].acquire(blocking=False):
            self._reply(503, {"error": f"too many clients ask for {path} at the same time"})
        else:
            try:
                answers[path](parse_qs(url.query))
            finally:
                self.server.readers[path].release()

    def _decision(self, _given: dict[str, list[str]]) -> None:
        self._reply(200, self.server.board.current().to_json())

    def _wait(self, given: dict[str, list[str]]) -> None:
        """Answer when the client may go on, with 200; with 503 if that takes too long."""
        try:
            worked_s = float(given.get("worked_s", ["0"])[-1])
            limit_s = float(given.get("max_s", [str(_WAIT_S_MAX)])[-1])
        except ValueError:
            worked_s = limit_s = float("nan")
        if not (worked_s >= 0 and limit_s >= 0):
            self._reply(400, {"error": "worked_s and max_s are numbers of seconds, 0 or more"})
            return
        worked_s, limit_s = min(worked_s, _WORKED_S_MAX), min(limit_s, _WAIT_S_MAX)
        begun_s, number = time.monotonic(), 0
        while True:
            decision = self.server.board.current()
            waited_s = time.monotonic() - begun_s
            rest_s = worked_s * decision.delay_per_s
            if decision.decision != "pause" and waited_s >= rest_s:
                self._reply(200, decision.to_json())
                return
            left_s = limit_s - waited_s
            if left_s <= 0:
                self._reply(503, decision.to_json())
                return
            until_s = left_s if decision.decision == "pause" else min(left_s, rest_s - waited_s)
            # A reading becomes too old without any news.
            number = self.server.board.wait_for_news(number, min(until_s, _HEARTBEAT_S))

    def _stream(self, _given: dict[str, list[str]]) -> None:
        """A line of JSON now, with every news and every second, until the client leaves."""
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        if self.command == "HEAD":
            return
        number = 0
        while True:
            said = self.server.board.current().to_json()
            self.wfile.write(json.dumps(said).encode() + b"\n")
            number = self.server.board.wait_for_news(number, _HEARTBEAT_S)

    def _reply(self, status: int, said: dict[str, object]) -> None:
        body = json.dumps(said).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        if status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that the base class refuses, as JSON too."""
        self.close_connection = True
        self.request_version = self.protocol_version  # Without one there would be no status.
        said = message or HTTPStatus(code).phrase
        with suppress(OSError):
            self._reply(code, {"error": said})


@contextmanager
def serving(board: Board, address: Address) -> Iterator[str]:
    """Answer within the block; yields the URL. Raises SetupError if the address cannot be used."""
    try:
        family = {"address_family": family_of(address.host)}
        server = type("_Server", (_DecisionServer,), family)(tuple(address), _DecisionHandler)
    except (OSError, UnicodeError) as problem:
        said = getattr(problem, "strerror", None) or str(problem)
        raise SetupError(
            f"--listen {address}: {said}",
            code="listen-address",
            hint="another address, or port 0 for a free one; a governor of another server may use"
            " this one",
        ) from None
    server.board = board
    server.address = address
    server.readers = {
        path: threading.BoundedSemaphore(count) for path, count in _READERS_MAX.items()
    }
    thread = threading.Thread(target=server.serve_forever, name="govern http", daemon=True)
    thread.start()
    try:
        yield f"http://{address._replace(port=server.server_address[1])}"
    finally:
        with suppress(OSError):
            server.shutdown()
            server.server_close()
        thread.join()
