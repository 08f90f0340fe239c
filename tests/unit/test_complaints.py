"""What libpq and poolers say becomes one message with a hint, and never repeats a password."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pgdyno.cli import _status
from pgdyno.errors import PgdynoError, UsageError
from pgdyno.server.connecting.complaints import connect_error, malformed, wrong_value
from pgdyno.server.connecting.connect import parse_conninfo, resolve_conninfo

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
        ('FATAL:  too many connections for role "joe"', "connection-limit", "too many"),
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
    with nothing_reachable():
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
    # With some noise it is a URI of another host, which must not be looked for.
    with nothing_reachable(), pytest.raises(PgdynoError) as caught:
        resolve_conninfo(spelling.format(secret))
    assert secret not in caught.value.message


def test_a_port_that_is_none_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match='"eleven" is not a port'):
        resolve_conninfo("postgresql://joe:pw@db:eleven/prod")


SECRET = "S3cret"
MISSPELT = [
    "u:{}@h/db", "//u:{}@h/db", "pw/{}@127.0.0.1", "u:{}@h", "sec:{}", "sec:{}/shop",
    "sec:{}?host=127.0.0.1", "sec:{},127.0.0.1/shop", "postgresql://sec:{}",
    "postgresql://sec:{}/shop", "postgresql://127.0.0.1:5432,sec:{}/shop",
    "postgresql://sec:{} %40127.0.0.1/shop", "postgresql:/sec:{}@h", "postgresql//sec:{}@h/x",
    "postgres:sec:{}@h", "user=sec {}", "password {}", "password %L {}", "host=h password {}",
    "password:{}", "user=sec password={} shop=x y", "joe@srv:{}@h/db", "joe:{}",
]  # fmt: skip
NAMED = [
    ["run", "{}"], ["run", "-d", "{}"], ["run", "--dbname={}"], ["run", "-U", "{}"],
    ["run", "-h", "{}"], ["run", "-d{}"], ["show", "{}"], ["report", "{}"], ["diff", "{}", "x"],
    ["spec", "check", "{}"], ["server", "sweep", "{}"], ["compare", "{}"],
    ["run", "-f", "/dev/null/{}"],
    ["run", "-o", "/dev/null/{}"], ["cleanup", "{}"], ["run", "--control", "{}"], ["{}"],
]  # fmt: skip


@given(
    st.sampled_from(MISSPELT),
    st.sampled_from(NAMED),
    st.from_regex(r"[a-zA-Z!.+_-]{4,10}", fullmatch=True),
)
@settings(max_examples=150, deadline=None)
def test_a_mistyped_connection_string_is_not_quoted(
    spelling: str, arguments: list[str], noise: str
) -> None:
    secret = f"Q{noise}z9"
    word = spelling.format(secret)
    said = _refusal([each.format(word) for each in arguments])
    assert secret not in said, (said, arguments)


def _refusal(arguments: list[str]) -> str:
    """Return stderr of a command in an environment whose server does not answer."""
    said = io.StringIO()
    with nothing_reachable() as patch, redirect_stderr(said):
        patch.setattr("sys.argv", ["pgdyno", *arguments])
        assert _status() in (1, 2)
    return said.getvalue()


@contextmanager
def nothing_reachable() -> Iterator[pytest.MonkeyPatch]:
    """No host has an address, and there is no server at the default place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGHOST", "/nonexistent")
        patch.setenv("PGCONNECT_TIMEOUT", "2")
        patch.setattr("socket.getaddrinfo", _unknown_host)
        yield patch


def _unknown_host(*_given: object, **_named: object) -> None:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.mark.parametrize("spelling", MISSPELT)
def test_a_server_that_quotes_the_name_is_not_repeated(spelling: str) -> None:
    name = spelling.format(SECRET)
    for said in (f'FATAL:  database "{name}" does not exist', f'FATAL:  role "{name}" does not'):
        problem = connect_error(AT + said, {"dbname": name, "user": name})
        assert SECRET not in f"{problem.message} {problem.hint}"
        assert "[not shown: it looks like a connection string]" in problem.message


def test_the_value_of_a_variable_is_not_taken_for_the_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGPASSWORD", SECRET)
    monkeypatch.setenv("PGSSLMODE", SECRET)
    problem = wrong_value(f'invalid sslmode value: "{SECRET}"')
    assert problem is not None
    assert problem.message == 'PGSSLMODE: invalid sslmode value: "***"'
    assert "PGSSLMODE in the environment" in (problem.hint or "")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (f"postgresql://ann:{SECRET}@x@h/shop", "%40"),
        (f"postgresql://ann@corp:{SECRET}@h/shop", "%40"),
        (f"postgresql://ann:{SECRET}/x@h/shop", "%2F"),
        (f"postgresql://ann:{SECRET}@s/x@h/shop", "%40"),
        (f"postgresql://ann:{SECRET}%x@h/shop", "%25"),
        (f"postgresql://ann:{SECRET} x@h/shop", "%20"),
        (f"jdbc:postgresql://h/shop?user=ann&password={SECRET}", "jdbc:"),
        ("jdbc:postgresql:shop", "postgresql://"),
        ("postgresql://ann@h:99999/shop", "postgresql://"),
    ],
)
def test_a_uri_that_is_not_what_was_meant_says_how_to_write_it(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_conninfo(text)
    assert hint in (caught.value.hint or "")
    assert SECRET not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann:s%40x@h/shop",
        "postgresql://ann@h,i/d@b?application_name=a@b/c",
        "postgresql:///shop?user=ann@corp",
        "postgresql://h/shop?host=@abstract",
    ],
)
def test_a_uri_with_an_at_elsewhere_is_taken(text: str) -> None:
    assert parse_conninfo(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("postgresql://h:99999/shop", '"99999" is not a port'),
        ("hots=h dbname=shop", 'invalid connection option "hots"'),
        ("postgresql://h/shop?sslmod=x", 'invalid URI query parameter: "sslmod"'),
        ("user=sec password shop", 'missing "=" after "password" in connection info string'),
    ],
)
def test_what_cannot_be_a_password_is_quoted(text: str, complaint: str) -> None:
    assert complaint in malformed(complaint, text).message
