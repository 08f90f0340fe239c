"""Several servers: dead ones are passed over, unsuitable ones as well, and a failover is followed.

A standby is played by a fake that reports itself as one: what a server says is all that counts.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from engine_runs import Run
from tls_files import Authority

from patience import PATIENCE_S
from pgdyno._engine import EngineError, Load
from pgdyno.server import Cluster

pytestmark = pytest.mark.server


def message(tag: bytes, body: bytes) -> bytes:
    return tag + struct.pack("!I", len(body) + 4) + body


def reports(name: str, value: str) -> bytes:
    return message(b"S", f"{name}\0{value}\0".encode())


READY = message(b"Z", b"I")
LOGGED_IN = message(b"R", struct.pack("!I", 0))
DONE = message(b"C", b"SELECT 1\0") + READY


class Fake:
    """A server that says what it is, or leaves that to be asked; counts its sessions."""

    def __init__(self, *, standby: bool | None, tls: ssl.SSLContext | None = None) -> None:
        self.standby = standby
        self.tls = tls
        self.sessions = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                threading.Thread(target=self._guarded, args=(connection,), daemon=True).start()

    def _guarded(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.settimeout(PATIENCE_S)
            if self.tls is None:
                self._serve(connection)
            else:
                with self.tls.wrap_socket(connection, server_side=True) as wrapped:
                    self._serve(wrapped)

    def _serve(self, connection: socket.socket) -> None:
        connection.recv(4096)
        self.sessions += 1
        said = b""
        if self.standby is not None:
            said = reports("in_hot_standby", "on" if self.standby else "off")
            said += reports("default_transaction_read_only", "off")
        connection.sendall(LOGGED_IN + said + READY)
        while asked := connection.recv(4096):
            if asked.startswith(b"X"):
                return
            row = b""
            if b"pg_is_in_recovery" in asked or b"transaction_read_only" in asked:
                columns = struct.pack("!H", 1) + b"x\0" + struct.pack("!IhIhih", 0, 0, 16, 1, -1, 0)
                row = message(b"T", columns)
                row += message(b"D", struct.pack("!HI", 1, 1) + b"f")
            connection.sendall(row + DONE)


@contextmanager
def fakes(*standbys: bool | None) -> Iterator[list[Fake]]:
    with ExitStack() as stack:
        made = [Fake(standby=standby) for standby in standbys]
        for fake in made:
            stack.callback(fake.close)
        yield made


def load(ports: list[int], **changes: Any) -> str:
    target = {
        "hosts": [{"host": "127.0.0.1", "port": port} for port in ports],
        "user": "u",
        "database": "d",
        "sslmode": "disable",
    }
    group = {"name": "g", "clients": 4, "scripts": [{"name": "s", "text": "select 1;"}]}
    return json.dumps(
        {
            "target": target | changes,
            "protocol": "simple",
            "backoff_ms_max": 60,
            "connect_timeout_ms": 60_000,
            "groups": [group],
        }
    )


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port where nobody listens, nor can anybody begin to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def all_are_at_work(run: Run) -> None:
    """Wait until all four clients are connected, and then for some transactions."""
    run.wait_for(lambda run: run.total["connects"] == 4)
    run.wait_for_more("done", 20)


@pytest.mark.parametrize("attrs", ["any", "read-write", "primary"])
def test_dead_and_unsuitable_servers_are_passed_over(attrs: str, dead_port: int) -> None:
    with fakes(True, False) as (standby, primary):
        ports = [dead_port, *([standby.port] if attrs != "any" else []), primary.port]
        with Run(load(ports, target_session_attrs=attrs)) as run:
            all_are_at_work(run)
        assert primary.sessions == 5
        assert standby.sessions == (5 if attrs != "any" else 0)
    run.assert_balanced()
    assert not run.errors


@pytest.mark.parametrize("attrs", ["standby", "prefer-standby", "read-only"])
def test_standbys_are_found(attrs: str) -> None:
    with fakes(False, True) as (primary, standby):
        with Run(load([primary.port, standby.port], target_session_attrs=attrs)) as run:
            all_are_at_work(run)
        assert standby.sessions == 5


def test_what_a_server_does_not_say_it_is_asked() -> None:
    with fakes(None) as (silent,):
        with Run(load([silent.port], target_session_attrs="primary")) as run:
            run.wait_for_more("done", 20)
        with pytest.raises(EngineError) as caught:
            Load(load([silent.port], target_session_attrs="standby")).start()
    assert caught.value.code == "no-suitable-server"
    assert caught.value.message.endswith("it is not a standby")


def test_a_preferred_standby_need_not_be_there(dead_port: int) -> None:
    with fakes(False) as (primary,):
        ports = [dead_port, primary.port]
        with Run(load(ports, target_session_attrs="prefer-standby")) as run:
            run.wait_for_more("done", 20)


def test_all_that_failed_is_told(dead_port: int) -> None:
    with fakes(True) as (standby,), pytest.raises(EngineError) as caught:
        Load(load([dead_port, standby.port], target_session_attrs="primary")).start()
    said = caught.value.message
    assert f"127.0.0.1:{dead_port}: Connection refused" in said
    assert caught.value.code == "no-suitable-server"
    assert f"127.0.0.1:{standby.port}: " in said


def test_a_failover_is_followed() -> None:
    """The primary dies, the standby is promoted: the clients are there without being told."""
    with fakes(True) as (standby,):
        primary = Fake(standby=False)
        with Run(load([primary.port, standby.port], target_session_attrs="read-write")) as run:
            all_are_at_work(run)
            primary.close()
            primary.standby, standby.standby = True, False
            # Those that are connected stay; whoever comes anew finds the other one.
            run.load.set_clients("g", 8)
            run.wait_for(lambda run: run.total["connects"] == 8)
            run.wait_for_more("done", 20)
        assert standby.sessions >= 4
    run.assert_balanced()


def test_connections_are_spread() -> None:
    with fakes(False, False) as made:
        ports = [fake.port for fake in made]
        with Run(load(ports, load_balance_hosts="random")) as run:
            run.load.set_clients("g", 40)
            run.wait_for(lambda run: run.total["connects"] == 40)
        assert all(fake.sessions > 3 for fake in made)


@pytest.mark.parametrize("alpn", [True, False])
def test_encryption_without_being_asked_for(tmp_path: Path, alpn: bool) -> None:
    """A server with direct TLS, as in PostgreSQL 17: TLS at once, and ALPN on both sides."""
    authority = Authority(tmp_path, "ours")
    certificate, key = authority.issue("server", "fake", "DNS:db.test")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if alpn:
        context.set_alpn_protocols(["postgresql"])
    fake = Fake(standby=None, tls=context)
    made = json.loads(
        load([fake.port], sslmode="verify-full", sslnegotiation="direct",
             sslrootcert=str(authority.certificate))
    )  # fmt: skip
    made["target"]["hosts"][0] |= {"host": "db.test", "hostaddr": "127.0.0.1"}
    try:
        if alpn:
            with Run(json.dumps(made)) as run:
                all_are_at_work(run)
            assert run.histogram("tls").count == 4
        else:
            with pytest.raises(EngineError) as caught:
                Load(json.dumps(made)).start()
            assert caught.value.code == "tls-failed"
    finally:
        fake.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"N", "encryption is disabled"),
        (b"S" + LOGGED_IN + READY, "received unencrypted data with the answer"),
        (b"EFATAL\0", "with an error"),
        (b"H", "with 'H'"),
        (b"S\x15\x03\x03\x00\x02\x02\x28", "client certificate"),
        (b"Sgarbage that is no TLS", "received unencrypted data"),
        (b"", "the connection was closed"),
    ],
)
def test_answers_to_the_request_for_encryption(answer: bytes, words: str) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(8)
        if answer.startswith(b"S\x15"):
            connection.sendall(b"S")
            connection.recv(4096)
            connection.sendall(answer[1:])
        else:
            connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(4096)

    with answering(serve) as port, pytest.raises(EngineError) as caught:
        Load(load([port], sslmode="require")).start()
    assert caught.value.code == "tls-failed"
    assert words in caught.value.message


@contextmanager
def answering(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with suppress(OSError), connection:
                        connection.settimeout(PATIENCE_S)
                        serve(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def test_a_real_server_behind_a_dead_one(pg: Cluster, dead_port: int) -> None:
    tcp = pg.conninfo_tcp
    made = json.loads(load([dead_port, tcp.port], target_session_attrs="read-write"))
    made["target"] |= {"user": tcp.user, "password": tcp.password, "database": tcp.database}
    with Run(json.dumps(made)) as run:
        run.wait_for_more("done", 20)
    made["target"]["target_session_attrs"] = "standby"
    with pytest.raises(EngineError) as caught:
        Load(json.dumps(made)).start()
    assert caught.value.code == "no-suitable-server"
