"""Web servers for tests: a small shop on Python's own server, and sockets that misbehave."""

from __future__ import annotations

import json
import socket
import socketserver
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any


class _Server(socketserver.ThreadingMixIn, HTTPServer):
    daemon_threads = True
    request_queue_size = 128
    shop: Shop

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients may leave at any time."""


class _Pages(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # A response leaves in one piece.
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._answer(b"")

    def do_HEAD(self) -> None:
        self._answer(b"")

    def do_PUT(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

    def _answer(self, posted: bytes) -> None:
        self.server.shop.note(self.command, self.path, self.headers.get("Cookie"))
        path = self.path.partition("?")[0]
        if path == "/slow":
            time.sleep(0.2)
        if path.startswith("/status/"):
            return self._send(int(path.rpartition("/")[2]), b"")
        if path.startswith("/hops/"):
            left = int(path.rpartition("/")[2])
            where = f"{left - 1}" if left else "../shop"
            return self._send(302, b"", Location=where)
        if path == "/elsewhere":
            return self._send(302, b"", Location="http://other.invalid/")
        if path == "/login":
            return self._send(200, b'{"token": "a&b c"}', **{"Set-Cookie": "sid=7; Path=/"})
        if path == "/logout":
            return self._send(200, b"bye", **{"Set-Cookie": "sid=; Path=/; Max-Age=0"})
        if path == "/close":
            self.close_connection = True
            return self._send(200, b"closed", Connection="close")
        if path == "/chunks":
            return self._send_chunks([b"first, ", b"second, ", b"third"])
        seen = {
            "method": self.command,
            "target": self.path,
            "cookie": self.headers.get("Cookie"),
            "type": self.headers.get("Content-Type"),
            "test": self.headers.get("X-Test"),
            "body": posted.decode("latin-1"),
            "items": [{"id": 41}, {"id": 42}],
        }
        return self._send(201 if posted else 200, json.dumps(seen).encode(), **{"X-Number": "17"})

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_chunks(self, chunks: list[bytes]) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        """The shop has its own notes."""


class Shop:
    """A running server, and what was requested of it."""

    def __init__(self, server: _Server, scheme: str) -> None:
        self._lock = threading.Lock()
        self.port = server.server_address[1]
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self.requests: Counter[str] = Counter()
        """By method and target."""
        self.cookies: Counter[str | None] = Counter()

    def note(self, method: str, target: str, cookie: str | None) -> None:
        """Count a request."""
        with self._lock:
            self.requests[f"{method} {target}"] += 1
            self.cookies[cookie] += 1


@contextmanager
def shop(certificate: tuple[Path, Path] | None = None) -> Iterator[Shop]:
    """Run a shop; with a certificate and its key, encrypted."""
    server = _Server(("127.0.0.1", 0), _Pages)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        context.set_alpn_protocols(["http/1.1"])
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    server.shop = Shop(server, "http" if certificate is None else "https")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.shop
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def misbehaving(answer: bytes, *, then: str = "close", times: int | None = None) -> Iterator[int]:
    """Run a server that answers every request with ``answer``, then closes the connection, resets
    it or keeps it; from the request number ``times`` on it closes instead of answering. Yields its
    port."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    threading.Thread(target=_accept, args=(listening, answer, then, times), daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def _accept(listening: socket.socket, answer: bytes, then: str, times: int | None) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        arguments = (connection, answer, then, times)
        threading.Thread(target=_serve, args=arguments, daemon=True).start()


def _serve(connection: socket.socket, answer: bytes, then: str, times: int | None) -> None:
    served = 0
    with connection:
        try:
            while connection.recv(65536):
                if times is not None and served >= times:
                    return
                connection.sendall(answer)
                served += 1
                if then == "reset":
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                if then != "keep":
                    return
        except OSError:
            pass  # The client left first.
