"""Connection values: what is shown never holds the password."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from pgdyno.server.connecting.conninfo import ConnInfo, Host

_names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


@given(_names, _names, st.sampled_from(["db.example", "10.0.0.1", "::1", "/var/run/pg"]))
def test_uri_says_the_same_to_libpq(user: str, database: str, host: str) -> None:
    uri = ConnInfo(host, 5433, user, "hidden", database).uri_without_password
    parsed = conninfo_to_dict(uri)
    assert parsed["user"] == user
    assert parsed["dbname"] == database
    assert parsed["host"] == host
    assert int(str(parsed["port"])) == 5433
    assert "password" not in parsed


def test_password_is_in_the_keywords_only() -> None:
    conninfo = ConnInfo("h", 1, "u", "s3cret", "d", {"connect_timeout": "3"})
    assert "s3cret" not in repr(conninfo)
    assert conninfo.kwargs()["password"] == "s3cret"
    assert conninfo.kwargs()["connect_timeout"] == "3"


def test_importing_the_room_does_not_load_psycopg() -> None:
    code = "import pgdyno.server, pgdyno.workload, sys; sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_engine_gets_all_servers_and_what_is_asked_of_the_way() -> None:
    options = {
        "sslmode": "verify-full",
        "sslrootcert": "/ca.crt",
        "sslpassword": "secret",
        "target_session_attrs": "read-write",
        "max_protocol_version": "latest",
        "ssl_min_protocol_version": "TLSv1.1",
        "sslsni": "0",
        "keepalives_idle": "10",
    }
    hosts = (Host("a", None, 1), Host("b", "10.0.0.2", 2))
    conninfo = ConnInfo("b", 2, "u", "pw", "d", options, "10.0.0.2", hosts)
    assert conninfo.engine_target() == {
        "hosts": [
            {"host": "a", "hostaddr": None, "port": 1},
            {"host": "b", "hostaddr": "10.0.0.2", "port": 2},
        ],
        "user": "u",
        "password": "pw",
        "database": "d",
        "application_name": "pgdyno",
        "sslmode": "verify-full",
        "sslrootcert": "/ca.crt",
        "sslpassword": "secret",
        "target_session_attrs": "read-write",
        "max_protocol_version": "3.2",
        "sslsni": False,
    }
    # The control connection is to the very server that was found.
    kwargs = conninfo.kwargs()
    assert (kwargs["host"], kwargs["hostaddr"], kwargs["port"]) == ("b", "10.0.0.2", 2)
    assert kwargs["target_session_attrs"] == "any"
    assert "secret" not in repr(conninfo)
    assert "pw" not in repr(conninfo)


@pytest.mark.parametrize(
    ("options", "server", "expected"),
    [
        ({}, "UTF8", None),
        ({}, "LATIN1", None),
        ({}, "SQL_ASCII", "SQL_ASCII"),
        ({"client_encoding": "auto"}, "UTF8", None),
        ({"client_encoding": "latin1"}, "SQL_ASCII", "latin1"),
        ({"options": "-c client_encoding=latin1"}, "SQL_ASCII", ""),
    ],
)
def test_the_load_has_the_given_encoding_and_none_in_sql_ascii(
    options: dict[str, str], server: str, expected: str | None
) -> None:
    conninfo = ConnInfo("a", 1, "u", None, "d", options, server_encoding=server)
    assert conninfo.engine_target().get("client_encoding") == expected
    assert conninfo.kwargs().get("client_encoding", "utf8") == "utf8"
