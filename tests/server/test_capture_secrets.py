"""A thousand secrets that are planted in a server, and of which a capture has none."""

from __future__ import annotations

import base64
import random
import string
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest

from capturing import capture_of
from patience import beside
from pgdyno.server import Cluster, connect_plain

pytestmark = [pytest.mark.server, pytest.mark.alike]

SECONDS = 1.0
COUNT = 1000
PARTS = 10
"""Kinds of places, each with a tenth of the secrets."""
LETTERS = string.ascii_letters + string.digits


def planted() -> list[list[str]]:
    """Return the secrets by the kind of their place."""
    drawn = random.Random(40)
    found = ["s" + "".join(drawn.choices(LETTERS, k=11)) for _ in range(COUNT)]
    return [found[part::PARTS] for part in range(PARTS)]


def quoted(secrets: list[str]) -> str:
    """Return secrets as a list in SQL."""
    return ", ".join(f"'{each}'" for each in secrets)


def setup(parts: list[list[str]]) -> Iterator[str]:
    """Yield the statements that plant all but the literals of statements."""
    rows, common, mixed, comments, defaults, roles, labels, checks, bodies, _ = parts
    yield "create extension pg_stat_statements"
    yield "create role watcher login password 'x' in role pg_monitor, pg_read_all_data"
    yield from (f"create role r{number} password '{each}'" for number, each in enumerate(roles))
    yield f"create type mood as enum ({quoted(labels)})"
    yield "create table people (id int primary key, email text, kind text, mixed text, mood mood)"
    listed = (f"({number}, '{each}')" for number, each in enumerate(rows))
    yield f"insert into people (id, email) values {', '.join(listed)}"
    yield (
        f"insert into people select 1000 + i, 'e' || i, (array[{quoted(common)}])[i % 100 + 1],"
        " 'm' || i from generate_series(1, 3000) i"
    )
    for number, each in enumerate(mixed):
        yield f"update people set mixed = '{each} of Bärbel; \"' || id where id % 100 = {number}"
    yield "create table wide (id int primary key)"
    for number, each in enumerate(defaults):
        yield f"alter table wide add c{number} text default '{each}'"
        yield f"comment on column wide.c{number} is '{comments[number]}'"
    for number, each in enumerate(checks):
        yield f"alter table wide add check (c{number} <> '{each}')"
    for number, each in enumerate(bodies[::2]):
        yield f"create index on people (id) where kind = '{each}'"
        body = f"select '{bodies[2 * number + 1]}'"
        yield f"create function f{number}() returns text language sql as $body${body}$body$"
    yield "analyze"


def load(cluster: Cluster, literals: list[str]) -> AbstractContextManager[None]:
    """A session with literals in its statements, also in those that are no queries."""
    texts = [
        "select 1 from people where email = '{}'",
        "update people set kind = kind where email = '{}' and id = 1 -- {}",
        "select e'{}', $${}$$, id from people where id = 1 /* {} */",
        "alter role watcher valid until 'infinity'; comment on table people is '{}'",
        "set application_name = '{}'",
        "do $a$ begin perform '{}'; end $a$",
    ]

    def work(begun: threading.Event, ended: threading.Event) -> None:
        with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as connection:
            while not ended.is_set():
                for number, each in enumerate(literals):
                    connection.execute(texts[number % len(texts)].replace("{}", each).encode())
                begun.set()

    return beside(work)


def forms(secret: str) -> Iterator[str]:
    """Yield a secret in plain text, hexadecimal, and base64 wherever it begins."""
    yield secret
    yield secret.encode().hex()
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + secret.encode()).decode()
        yield whole[-(-8 * before // 6) : 8 * (before + len(secret)) // 6]


def test_none_of_a_thousand_secrets_is_in_a_capture(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    parts = planted()
    cluster = new_cluster(18, shared_preload_libraries="pg_stat_statements")
    with connect_plain(cluster.conninfo) as connection:
        for each in setup(parts):
            connection.execute(each.encode())
    path = tmp_path / "people.pgdyno"
    with load(cluster, parts[-1]):
        found = capture_of(cluster.conninfo, path, SECONDS, user="watcher", password="x")
    assert {each.full_name for each in found.tables} == {"public.people", "public.wide"}
    assert len(found.statements) >= 3
    content = path.read_text().lower()
    secrets = [secret for part in parts for secret in part]
    assert len({*secrets}) == COUNT
    assert not [each for each in secrets for form in forms(each) if form.lower() in content]
