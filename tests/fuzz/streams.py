"""Runs commands against a real server through a relay that damages what the server says.

Bytes are changed, dropped, doubled or held back, or the connection is cut, in control connections
and in the engine's. A command may fail, with one message and a status of the tree; it may not hang.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import threading
from pathlib import Path

from programs import begun, ended, own_home
from rounds import play

COMMANDS = (
    "run select-only -i -c 2 -T 1",
    "run tpcb-like -i -c 2 -t 20 --protocol simple",
    "compare select-only -i -c 2 --pool-max 1 --slice 200ms --pairs 6",
)


class Damaging:
    """A relay on a port of its own; each connection is damaged, or not, as its number decides."""

    def __init__(self, path: str, seed: str) -> None:
        self._path, self._seed = path, seed
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        number = 0
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._path)
                rng = random.Random(f"{self._seed}:{number}")
                number += 1
                for source, target, damage in ((client, server, None), (server, client, rng)):
                    threading.Thread(
                        target=_carry, args=(source, target, damage), daemon=True
                    ).start()


def _carry(source: socket.socket, target: socket.socket, rng: random.Random | None) -> None:
    """Everything from one side to the other, one place of it damaged, if any."""
    at, seen = (rng.choice([0, 5, 50, 400, 2000, 20_000, 10**9]) if rng else 10**9), 0
    with contextlib.suppress(OSError):
        while content := source.recv(65536):
            if rng and seen <= at < seen + len(content):
                content = _damaged(content, at - seen, rng)
                if content is None:
                    break
            seen += len(content)
            target.sendall(content)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def _damaged(content: bytes, place: int, rng: random.Random) -> bytes | None:
    head, tail = content[:place], content[place:]
    return rng.choice([
        head + bytes([tail[0] ^ 1 << rng.randrange(8)]) + tail[1:],
        head + rng.randbytes(min(len(tail), 9)) + tail[9:],
        head + tail[rng.randrange(1, 20) :],
        head + tail[: rng.randrange(1, 20)] + tail,
        head + b"\xff" * 5 + tail,
        head,
        None,
    ])  # fmt: skip


def one(rng: random.Random) -> str | None:
    """One command over one relay."""
    folder = HOME / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    relay = Damaging(SOCKET, str(rng.random()))
    words = rng.choice(COMMANDS).split()
    server = f"postgresql://{USER}@127.0.0.1:{relay.port}/postgres?connect_timeout=5"
    said = ended(begun(folder, *words, server, "-q"))
    relay.close()
    if said is None:
        return f"{' '.join(words)}: does not end"
    return f"{' '.join(words)}: {said.complaint}" if said.complaint else None


if __name__ == "__main__":
    HOME: Path = own_home()
    from pgdyno.server import Cluster, find_installation

    with Cluster.create(find_installation(None, 18), {}) as cluster:
        USER = cluster.conninfo.user
        SOCKET = f"{cluster.conninfo.host}/.s.PGSQL.{cluster.conninfo.port}"
        play("streams", one)
