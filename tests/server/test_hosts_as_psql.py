"""The server that is found among several is the one that psql finds, wherever they are named."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_hosts import LOGGED_IN, READY, Fake, message, reports

from pgdyno.errors import PgdynoError
from pgdyno.server import Cluster, resolve_conninfo

pytestmark = pytest.mark.server

_ATTRS = ("", "any", "read-only", "primary", "standby", "prefer-standby")


class _Standby(Fake):
    """A standby, which answers the first questions."""

    def _serve(self, connection: socket.socket) -> None:
        connection.recv(4096)
        said = reports("server_version", "18.0") + reports("in_hot_standby", "on")
        said += reports("client_encoding", "UTF8") + reports("server_encoding", "UTF8")
        connection.sendall(LOGGED_IN + said + READY)
        while asked := connection.recv(4096):
            if asked.startswith(b"X"):
                return
            connection.sendall(message(b"C", b"SET\0") + READY)


class _Refusing(Fake):
    """A server that lets nobody in, in the language of its owner."""

    sqlstate = "28P01"
    words = "Passwort-Authentifizierung für Benutzer »u« fehlgeschlagen"

    def _serve(self, connection: socket.socket) -> None:
        connection.recv(4096)
        fields = {"S": "FATAL", "V": "FATAL", "C": self.sqlstate, "M": self.words}
        body = "".join(f"{name}{value}\0" for name, value in fields.items()) + "\0"
        connection.sendall(message(b"E", body.encode()))


class _Starting(_Refusing):
    """A server that is not up yet."""

    sqlstate = "57P03"
    words = "the database system is starting up"


@pytest.fixture
def ports(pg18: Cluster) -> Iterator[dict[str, int]]:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        made = {
            "standby": _Standby(standby=True),
            "refusing": _Refusing(standby=None),
            "starting": _Starting(standby=None),
        }
        yield {
            "dead": held.getsockname()[1],
            "primary": pg18.conninfo_tcp.port,
            **{name: fake.port for name, fake in made.items()},
        }
        for fake in made.values():
            fake.close()


def _psql(cluster: Cluster, conninfo: str) -> int | None:
    """Return the port of the server to which psql connects."""
    psql = [cluster.installation.bindir / "psql", "-X", "-d", conninfo, "-c", r"\echo :PORT"]
    ended = subprocess.run(psql, capture_output=True, text=True, check=False, stdin=-3)
    return int(ended.stdout) if ended.returncode == 0 else None


def _ours(conninfo: str) -> int | None:
    try:
        return resolve_conninfo(conninfo).port
    except PgdynoError:
        return None


@pytest.mark.parametrize("place", ["conninfo", "environment", "service", "PGSERVICE", "mixed"])
@pytest.mark.parametrize(
    "servers",
    [
        ["primary"],
        ["standby"],
        ["dead", "primary"],
        ["primary", "standby"],
        ["standby", "primary"],
        ["starting", "standby", "primary"],
        ["refusing", "primary"],
    ],
    ids="-".join,
)
def test_the_server_is_the_one_that_psql_finds(
    servers: list[str],
    place: str,
    pg18: Cluster,
    ports: dict[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"PGSSLMODE": "disable", "PGGSSENCMODE": "disable"}.items():
        monkeypatch.setenv(name, value)
    where = {
        "host": ",".join("127.0.0.1" for _ in servers),
        "port": ",".join(str(ports[each]) for each in servers),
    }
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    role = f"user=pgdyno password={pg18.conninfo_tcp.password} dbname=postgres"
    found = {}
    for attrs in _ATTRS:
        chosen = {"target_session_attrs": attrs} if attrs else {}
        given, served = {**where, **chosen}, {}
        if place == "environment":
            given = {}
            monkeypatch.setenv("PGHOST", where["host"])
            monkeypatch.setenv("PGPORT", where["port"])
        if place in ("service", "PGSERVICE"):
            given, served = {}, {**where, **chosen}
        if place == "mixed":
            given, served = {}, where
        if attrs and place in ("environment", "mixed"):
            monkeypatch.setenv("PGTARGETSESSIONATTRS", attrs)
        lines = [f"{name}={value}" for name, value in served.items()]
        (tmp_path / "services").write_text("\n".join(["[shop]", *lines, ""]))
        if place == "PGSERVICE":
            monkeypatch.setenv("PGSERVICE", "shop")
        service = ["service=shop"] if place in ("service", "mixed") else []
        conninfo = " ".join([role, *service, *(f"{n}={v}" for n, v in given.items())])
        found[attrs] = (_ours(conninfo), _psql(pg18, conninfo))
    assert {attrs: ours for attrs, (ours, _) in found.items()} == {
        attrs: psqls for attrs, (_, psqls) in found.items()
    }
    assert any(psqls for _, psqls in found.values()) is (servers != ["refusing", "primary"])


def test_a_socket_without_a_file_is_refused_by_name() -> None:
    with pytest.raises(PgdynoError, match="host=@pg: a socket without a file"):
        resolve_conninfo("host=@pg user=u dbname=d")
