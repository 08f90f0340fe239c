"""A relay before a real server that damages what the server says, by seed.

``python tests/server/corrupting.py SOCKET_OR_HOST PORT SEED`` stands alone: it prints its own port
and serves until its standard input closes.
"""

from __future__ import annotations

import random
import socket
import sys
import threading
from contextlib import suppress
from typing import Literal

Damage = Literal["flip", "drop", "insert", "cut"]
DAMAGES: tuple[Damage, ...] = ("flip", "drop", "insert", "cut")


class CorruptingRelay:
    """Hands on what clients send as it is, and damages what the server answers: in each stream of
    ``every_bytes`` on average one place, after the first ``spare_bytes``, which let it log in."""

    def __init__(
        self, host: str, port: int, *, seed: int, every_bytes: int = 20_000, spare_bytes: int = 0
    ) -> None:
        self._to = host, port
        self._rng = random.Random(seed)
        self._every_bytes = every_bytes
        self._spare_bytes = spare_bytes
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self.damaged = 0
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more clients; streams that are open go on."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, self._reach() as server:
            onward = threading.Thread(target=self._hand_on, args=(client, server), daemon=True)
            onward.start()
            self._answer(server, client)
            onward.join()

    def _reach(self) -> socket.socket:
        host, port = self._to
        if not host.startswith("/"):
            return socket.create_connection(self._to)
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    @staticmethod
    def _hand_on(client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        passed = 0
        try:
            while data := server.recv(65536):
                passed += len(data)
                client.sendall(data if passed <= self._spare_bytes else self._damage(data))
        finally:
            for each in (client, server):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _damage(self, data: bytes) -> bytes:
        with self._lock:
            rng = self._rng
            if rng.random() >= len(data) / self._every_bytes:
                return data
            self.damaged += 1
            at, kind = rng.randrange(len(data)), rng.choice(DAMAGES)
            some = rng.randbytes(rng.randint(1, 8))
        before, after = data[:at], data[at:]
        match kind:
            case "flip":
                return before + bytes([after[0] ^ 1 << some[0] % 8]) + after[1:]
            case "drop":
                return before + after[len(some) :]
            case "insert":
                return before + some + after
            case "cut":
                return before


class FloodingRelay(CorruptingRelay):
    """Repeats the first message of a type in an answer, after those of the log-in, for ever."""

    def __init__(self, host: str, port: int, *, repeated: bytes) -> None:
        super().__init__(host, port, seed=0)
        self._repeated = repeated

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with server.makefile("rb") as answers:
            ready = False
            while head := answers.read(5):
                message = head + answers.read(int.from_bytes(head[1:], "big") - 4)
                client.sendall(message)
                ready |= head[:1] == b"Z"
                while ready and head[:1] == self._repeated:
                    self.damaged += 1
                    client.sendall(message * 100)


if __name__ == "__main__":
    relay = CorruptingRelay(sys.argv[1], int(sys.argv[2]), seed=int(sys.argv[3]))
    print(relay.port, flush=True)
    sys.stdin.read()
