"""No password reaches a run file, whatever form it comes in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_samples import add_second, error_row, new_recorder, script_row

from pgdyno.record import RunFile
from pgdyno.record._interval_rows import ERROR_TEXTS
from pgdyno.record.plain import plain
from pgdyno.redact import blank, may_hold_password, withhold

SECRET = "s3cr3t!"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://joe:s3cr3t!@db/prod",
        "host=db user=joe password=s3cr3t! dbname=prod",
        "host=db password = 's3cr3t!'",
        "postgres://db/prod?user=joe&password=s3cr3t!&sslmode=require",
        'conninfo = "postgresql://joe:s3cr3t!@db/prod"',
        '[server]\npassword = "s3cr3t!"\n',
        "alter role joe with password 's3cr3t!' valid until 'infinity'",
        "CREATE USER joe PASSWORD 's3cr3t!'",
        "PGPASSWORD=s3cr3t! psql",
        "potgresql://joe:s3cr3t!@db/prod",
        "postgresql://joe:s3cr3t!@db:port/prod",
        "postgresql://joe:a/s3cr3t!@b@db/prod",
        "postgresql://joe:my s3cr3t!@db",
        "password=my\\ s3cr3t! host=db",
        "password=a,)b's3cr3t! host=db",
        "select dblink_connect('host=db password=''my s3cr3t!'' user=joe')",
        "create subscription s connection 'host=db password=s3cr3t!' publication p",
        "create user mapping for joe server s options (user 'joe', password 's3cr3t!')",
        "do $$ begin execute format('alter role joe password %L', 's3cr3t!'); end $$",
        "execute 'alter role joe password ' || quote_literal('s3cr3t!')",
        "alter role joe password $x$s3cr3t!$x$",
        "alter role joe password E'it\\'s s3cr3t!'",
        "alter role joe password'a'\n  's3cr3t!'",
        "alter role joe /* now */ password /* it */ 's3cr3t! cut sho",
        "alter role joe password 'SCRAM-SHA-256$4096:s3cr3t!$a:b'",
        "select set_config('my.password', 's3cr3t!', false)",
        "ssl_passphrase_command = 'echo s3cr3t!'",
        "ssl_passphrase_command=echo s3cr3t!",
        "{'user': 'joe', 'password': 's3cr3t!'}",
        "/etc/passwd: password = 'my s3cr3t!'",
        "/etc/passwd: host=db password=s3cr3t!",
        "alter role joe /**/password 's3cr3t!'",
        '{"/prod/password": "s3cr3t!"}',
    ],
)
def test_free_text_is_blanked(text: str) -> None:
    assert SECRET not in blank(text)
    assert "***" in blank(text)
    assert blank(blank(text)) == blank(text)


@pytest.mark.parametrize(
    "text",
    [
        "password authentication failed for user joe",
        "password_encryption = scram-sha-256",
        "select count(*) from passwords where id = 1",
        "postgresql://db:5432/prod",
        "postgresql://joe@db:5432/prod",
        "12:30@noon",
        "update users set password = $1 where id = $2",
        "see https://host:5432/docs and ask joe@db",
        "error: /etc/passwd: a file with this name already exists",
        "/etc/passwd:3: expected a table",
        "./my-passwd: 'x' is no setting",
        '"/etc/passwd" looks like a script',
        '"./passwd" looks like a script',
        'missing "=" after "password" in connection info string',
        "~/.config/app.password: no such file",
        'could not open file "/etc/passwd": Permission denied',
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert blank(text) == text


@pytest.mark.parametrize(
    "value",
    [
        {"target": {"password": SECRET}},
        {"server": [{"PGPASSWORD": SECRET}]},
        {"conninfo": f"postgresql://joe:{SECRET}@db/prod"},
        {"conninfo": f"postgresql://db/prod?password={SECRET}"},
        {"conninfo": f"host=db password={SECRET}"},
        {"conninfo": f"password='{SECRET}' host=db"},
    ],
)
def test_a_password_in_an_object_is_blanked(value: dict[str, Any]) -> None:
    stored = json.dumps(plain(value))
    assert SECRET not in stored
    assert "***" in stored


def test_what_is_no_password_passes() -> None:
    value = {"password": None, "settings": {"password_encryption": "md5"}, "sql": "select 1"}
    value |= {"conninfo": "host=db user=joe password=***"}
    assert plain(value) == value


def test_numpy_and_nan_become_json() -> None:
    value = {"a": np.float64(1.5), "b": np.int64(2), "c": float("nan"), "d": np.arange(2)}
    assert plain(value) == {"a": 1.5, "b": 2, "c": None, "d": [0, 1]}
    assert plain(("x", Path("/p"), {1})) == ["x", "/p", [1]]
    with pytest.raises(TypeError, match="no JSON form"):
        plain({"a": object()})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_is_stored_is_strict_json(value: Any) -> None:
    stored = plain(value)
    assert json.loads(json.dumps(stored, allow_nan=False)) == stored


SPELLINGS = st.sampled_from(
    [
        "postgresql://joe:{}@db:5432/prod?sslmode=prefer",
        "postgers://joe:{}@db",
        "postgresql://db/prod?password={}",
        "host=db password={} dbname=prod",
        "host=db password = '{}' dbname=prod",
        'password = "{}"',
        '{{"password":"{}","user":"joe"}}',
        "alter role joe encrypted password '{}' valid until 'infinity'",
        "CREATE USER joe PASSWORD E'{}'",
        "alter role joe password $${}$$ login",
        "select * from dblink('host=db password={}', 'select 1') as t(a int)",
        "select * from dblink('host=db password=''{}''', 'select 1') as t(a int)",
        "create user mapping for joe server s options (password '{}')",
        "select format('alter role joe password %L', '{}')",
    ]
)


@given(
    SPELLINGS,
    st.text(
        st.characters(codec="ascii", exclude_characters="'\"\\\\$@/?#&% \t\n\r\v\f\x00"), min_size=1
    ),
    st.sampled_from(["", "error: ", "-- hint\n", "spec: ", "/etc/passwd: ", '"/etc/passwd": ']),
)
def test_no_spelling_lets_a_password_through(spelling: str, noise: str, before: str) -> None:
    secret = f"q{noise}zz"
    said = blank(before + spelling.format(secret))
    assert secret not in said
    assert "***" in said


def test_nothing_in_the_file_holds_the_password(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    text = f"alter role joe password '{SECRET}'"
    with new_recorder(path, spec_text=f'conninfo = "postgresql://joe:{SECRET}@db"') as recorder:
        settings = {"primary_conninfo": f"host=a password={SECRET}"}
        settings["ssl_passphrase_command"] = f"echo {SECRET}"
        recorder.update_run(server={"password": SECRET, "settings": settings})
        recorder.add_event("setting", "x", {"uri": f"postgres://u:{SECRET}@h"})
        error = error_row(**dict.fromkeys(ERROR_TEXTS, text))
        statement = {"group": "g", "script": "s", "position": 0, "statement": text}
        statement |= {"done": 1, "failed": 0, "service": b""}
        add_second(recorder, 0, [script_row()], errors=[error], statements=[statement])
        recorder.statement_id(text)
        recorder.add_rows(
            "metric_lock", [{"waiting": 1, "behind_one_max": 1, "blocker_statement": text}]
        )
        recorder.finish("failed", f"cannot connect to postgres://joe:{SECRET}@db")
    assert SECRET.encode() not in path.read_bytes()
    with RunFile(path) as run:
        assert run.run.spec_text == 'conninfo = "postgresql://joe:***@db"'


@pytest.mark.parametrize(
    "word",
    ["/etc/passwd", "./passwd", "passwd", "my-password", "shop", "host:5432", "host:5432/shop",
     "::1", "[::1]:5432", "fe80::1,10.0.0.1", "@socket", "a.sql@3", "postgresql://h:5432/shop",
     "postgresql://h,g:5433/shop", "postgresql://joe:pw@h/shop",
     "postgresql://joe@/shop?host=/run/postgresql&port=5433", "postgres://joe@h?sslmode=require"],
)  # fmt: skip
def test_an_ordinary_name_is_quoted(word: str) -> None:
    assert not may_hold_password(word)


@pytest.mark.parametrize(
    "word",
    ["postgresql://joe@h/shop?S3cret", "postgresql://joe@h/shop?password=S3cret",
     "postgresql://joe@h/shop?host=g&sslpassword=S3cret", "postgresql://joe@h/shop?port=1&S3cret"],
)  # fmt: skip
def test_a_uri_with_a_secret_parameter_is_not_quoted(word: str) -> None:
    assert may_hold_password(word)


@pytest.mark.parametrize("word", ["postgresql://sec:QAAAAz9", "sec:QAAAAz9@h:1", "a:b:QAAAAz9"])
def test_what_may_be_a_password_is_not_quoted_by_itself(word: str) -> None:
    said = withhold(f'"QAAAAz9" is not a port in {word}', [word])
    assert "QAAAAz9" not in said
