"""What libpq and poolers say becomes one message with a hint, and never repeats a password."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgdyno.cli import _status
from pgdyno.errors import PgdynoError, UsageError
from pgdyno.server.connecting.complaints import connect_error
from pgdyno.server.connecting.connect import resolve_conninfo

AT = 'connection failed: connection to server at "10.0.0.1", port 6432 failed: '


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        ("FATAL:  no such database: shop", "no-pooler-database", 'has no database "shop"'),
        ('FATAL:  database "shop" does not exist', "no-database", "the database shop does not"),
        ("FATAL:  sorry, too many clients already", "no-connection-left", "too many clients"),
        ("FATAL:  Sorry, too many clients already", "no-connection-left", "too many clients"),
        (
            "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER"
            " attribute",
            "no-connection-left",
            "10.0.0.1:6432: remaining connection slots",
        ),
        ("FATAL:  no more connections allowed (max_client_conn)", "no-connection-left", "no more"),
        ('FATAL:  too many connections for role "joe"', "no-connection-left", "too many"),
        ("FATAL:  the database system is starting up", "server-starting", "starting up"),
        ("FATAL:  the database system is shutting down", "server-starting", "shutting down"),
        ("FATAL:  the database system is in recovery mode", "server-starting", "recovery mode"),
        ("FATAL:  SSL required", "no-encryption", "accepts only encrypted connections"),
        (
            'FATAL:  no pg_hba.conf entry for host "10.0.0.2", user "joe", database "shop",'
            " no encryption",
            "not-let-in",
            "no pg_hba.conf entry",
        ),
        (
            'FATAL:  pg_hba.conf rejects connection for host "10.0.0.2", user "joe"',
            "not-let-in",
            "rejects",
        ),
        ('FATAL:  password authentication failed for user "joe"', "wrong-password", "joe"),
        ("FATAL:  server login has been failing, try again later", "no-server-behind-pooler", "no"),
        (
            "FATAL:  all backend nodes are down, pgpool requires at least one valid node",
            "no-server-behind-pooler",
            "cannot reach its server",
        ),
        ('FATAL:  permission denied for database "shop"', "no-database-right", "denied"),
        ('FATAL:  role "joe" is not permitted to log in', "no-login", "log in"),
        ("received invalid response to SSL negotiation: H", "no-postgres", "does not use"),
    ],
)  # fmt: skip
def test_a_refusal_has_its_hint(said: str, code: str, message: str) -> None:
    error = connect_error(AT + said, {"host": "10.0.0.1"})
    assert (error.code, error.exit_status) == (code, 1)
    assert message in error.message
    assert error.message.count("10.0.0.1:6432") <= 1
    assert "failed: " not in error.message
    assert error.hint


@pytest.mark.parametrize(
    "text",
    [
        "potgresql://joe:{}@db/prod",
        "postgresql://joe:{}@db:port/prod",
        "postgresql://joe:%zz{}@db/prod",
        "postgresql://joe:a/{}@db/prod",
        "postgresql://joe:a b{}@db:x/prod",
        "password=a {} host=db",
        "password='{} host=db",
        "host=db password={} port=x",
        "joe:{}@db/prod",
        "host=db passwort={}",
    ],
)
def test_a_password_is_not_repeated(
    text: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["pgdyno", "run", text.format("s3cr3t"), "-q"])
    assert _status() == 1
    said = capfd.readouterr().err
    assert said.startswith("error: ")
    assert "s3cr3t" not in said


@given(
    st.sampled_from(
        [
            "postgresql://joe:{}@db:x/prod",
            "password={} x",
            "host=db password={} port=0",
            "ab://c:{}@",
        ]
    ),
    st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"]), max_size=12),
)
@example("postgresql://joe:{}@db:x/prod", "@[")
@example("postgresql://joe:{}@db:x/prod", "@;/")
def test_no_password_is_repeated(spelling: str, noise: str) -> None:
    secret = f"q{noise}zz"
    # With some noise it is a URI of another host, which cannot be reached.
    with pytest.raises(PgdynoError) as caught:
        resolve_conninfo(spelling.format(secret))
    assert secret not in caught.value.message


def test_a_port_that_is_none_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match='"eleven" is not a port'):
        resolve_conninfo("postgresql://joe:pw@db:eleven/prod")
