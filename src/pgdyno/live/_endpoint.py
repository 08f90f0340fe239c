"""The HTTP endpoint from which Prometheus reads the metrics of a run, and the watcher by which it
follows each session of the run.
"""

from __future__ import annotations

import errno
import json
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from pgdyno.errors import SetupError
from pgdyno.httpserver import GuardedHandler, GuardedServer, family_of, is_url
from pgdyno.live._families import own_families
from pgdyno.live._figures import Figures
from pgdyno.live._loadgen import loadgen_families
from pgdyno.live._server import server_families
from pgdyno.record import Recorder, RunFile
from pgdyno.spec.address import NOT_MEANT, Address, is_meant_for, parse_address

if TYPE_CHECKING:
    from pgdyno.conduct import Tick, Watcher
    from pgdyno.record import Recorder, RunInfo


ANSWERS_MAX = 20
"""Answers at the same time; Prometheus asks for one after the other."""
_HINTS = {
    errno.EADDRINUSE: "another program listens there; name another port, or 0 for any free one",
    errno.EACCES: "ports below 1024 are for root; name a higher one",
    errno.EADDRNOTAVAIL: "name an address of this machine, such as 127.0.0.1",
}


class Endpoint(Collector):
    """Answers of an open endpoint: the metrics of the run that began last."""

    def __init__(self) -> None:
        self._run: tuple[RunInfo, Figures] | None = None
        self._recorder: Recorder | None = None

    def leave(self) -> None:
        """Follow no recorder; the answers remain as they are."""
        if self._recorder is not None and self._run is not None:
            self._recorder.leave(self._run[1])
            self._recorder = None

    def follow(self, recorder: Recorder) -> None:
        """Answer with the metrics of this recorder's run from now on."""
        self.leave()
        recorder.flush()
        with RunFile(recorder.path) as file:
            run = file.run
        figures = Figures()
        recorder.listen(figures)
        self._recorder = recorder
        self._run = run, figures

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that nothing is collected before there is a run."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; none before a run begins."""
        if self._run is None:
            return
        run, figures = self._run
        with figures.lock:
            figures.catch_up()
            families = [
                *own_families(figures, run),
                *server_families(figures, run),
                *loadgen_families(figures, run),
            ]
        yield from families


class _Server(GuardedServer, HTTPServer):
    address: Address
    room: threading.BoundedSemaphore


class _Handler(GuardedHandler, MetricsHandler, BaseHTTPRequestHandler):
    """Answers with the metrics; requests that are meant for another server, as those of web pages
    are, are refused."""

    server: _Server

    def do_GET(self) -> None:
        """Answer, unless too many are answered already."""
        hosts: list[str | None] = [*self.headers.get_all("Host", [])]
        machine = self.server.server_name
        if not all(is_meant_for(self.server.address, machine, host) for host in hosts):
            self._refuse(421, NOT_MEANT)
        elif not is_url(self.path):
            self._refuse(400, "the path is not one of a URL")
        elif not self.server.room.acquire(blocking=False):
            self._refuse(503, "too many clients ask at the same time")
        else:
            try:
                super().do_GET()
            finally:
                self.server.room.release()

    def _refuse(self, status: int, why: str) -> None:
        body = json.dumps({"error": why}).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def open_endpoint(address: Address) -> Iterator[tuple[Endpoint, str]]:
    """Listen on ``address``; yield the endpoint and its URL.

    Raises SetupError if nothing can listen there.
    """
    endpoint = Endpoint()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(endpoint)
    handler = type("_Handler", (_Handler,), {"registry": registry})
    with _refused(address):
        family = {"address_family": family_of(address.host)}
        server = type("_Server", (_Server,), family)(tuple(address), handler)
    server.address, server.room = address, threading.BoundedSemaphore(ANSWERS_MAX)
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield endpoint, f"http://{Address(address.host, server.server_port)}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def _refused(address: Address) -> Iterator[None]:
    try:
        yield
    except (OSError, OverflowError, UnicodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else str(problem)
        number = problem.errno if isinstance(problem, OSError) else None
        hint = _HINTS.get(number or 0, "name an address of this machine, such as 127.0.0.1:9187")
        if isinstance(problem, socket.gaierror):
            hint = "name an address of this machine, such as 127.0.0.1:9187"
        raise SetupError(
            f"metrics cannot be offered on {address}: {why}", code="metrics-address", hint=hint
        ) from problem


@contextmanager
def offering_metrics(watcher: Watcher, address: str) -> Iterator[Watcher]:
    """Listen on ``address`` and yield a watcher by which the endpoint follows each session.

    Raises SetupError if nothing can listen there.
    """
    with open_endpoint(parse_address(address)) as (endpoint, url):
        watcher.step(f"metrics at {url}")
        yield _Offering(watcher, endpoint)


class _Offering:
    """A watcher that passes on all it is given, and recorders also to the endpoint."""

    def __init__(self, watcher: Watcher, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._watcher = watcher
        self.phase = watcher.phase
        self.progress = watcher.progress
        self.step = watcher.step
        self.note = watcher.note

    def recording(self, recorder: Recorder) -> None:
        """Have the endpoint follow this recorder."""
        self._endpoint.follow(recorder)
        self._watcher.recording(recorder)

    def tick(self, tick: Tick) -> None:
        """Pass on an interval."""
        self._watcher.tick(tick)
