"""Connection values: what is shown never holds the password."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from pgdyno.server.conninfo import ConnInfo

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
