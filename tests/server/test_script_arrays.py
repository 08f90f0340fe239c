"""Arrays, texts and timestamps of scripts, and errors that may be absent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from engine_runs import Run, config

from pgdyno.server import Cluster

pytestmark = pytest.mark.server

_PROTOCOLS = ["simple", "extended", "prepared"]


@pytest.fixture
def words(pg: Cluster) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection to a server with the empty table ``words``."""
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("drop table if exists words")
        connection.execute(
            "create table words (id bigint primary key, uses int, spelling text, met timestamptz)"
        )
        yield connection
        connection.execute("drop table words")


def _run(pg: Cluster, script: str, **keys: Any) -> Run:
    with Run(config(pg.conninfo, script, **{"clients": 1, "transactions": 1, **keys})) as run:
        run.wait_for(lambda run: run.load.state() == "stopped")
    run.assert_balanced()
    return run


_CARRIED = """
\\set count 5
\\array ids :count (:row + 1) * 10
insert into words (id, uses, spelling, met) values :rows on conflict do nothing \\rows :count \\
  :ids[:row + 1], :row, text_of(:ids[:row + 1], 12), timestamp(86400 * :row + 0.5)
select array_agg(id order by id) as known, array_agg(uses order by id) as uses, count(*) as found
  from words where id = any(:ids) and uses > 1 \\gset
update words as w set uses = 100 * v.uses::int from (values :rows) as v (id, uses)
 where w.id = v.id::bigint and w.uses = v.uses::int \\rows :found :known[:row + 1], :uses[:row + 1]
"""


@pytest.mark.parametrize("parameters", ["text", "binary"])
@pytest.mark.parametrize("protocol", _PROTOCOLS)
def test_arrays_carry_values_from_statement_to_statement(
    pg: Cluster,
    words: psycopg.Connection[tuple[Any, ...]],
    protocol: str,
    parameters: str,
) -> None:
    if (protocol, parameters) == ("simple", "binary"):
        parameters = "text"
    run = _run(pg, _CARRIED, protocol=protocol, parameters=parameters)
    assert not run.errors, run.last["errors"]
    rows = words.execute("select id, uses, spelling, met from words order by id").fetchall()
    assert [row[:2] for row in rows] == [(10, 0), (20, 1), (30, 200), (40, 300), (50, 400)]
    assert all(len(row[2]) == 12 and row[2].isalnum() for row in rows)
    assert len({row[2] for row in rows}) == 5
    assert rows[1][3] == datetime(1970, 1, 2, 0, 0, 0, 500_000, tzinfo=UTC)


@pytest.mark.parametrize("protocol", _PROTOCOLS)
def test_texts_and_timestamps_are_parameters_or_literals(
    pg: Cluster, words: psycopg.Connection[tuple[Any, ...]], protocol: str
) -> None:
    script = (
        "\\set t random_text(3, 9)\n\\set same text_of(7, 4)\n\\set at timestamp(0)\n"
        "insert into words (id, spelling, met) values (:txn, :t, :at);\n"
        "insert into words (id, spelling) values (100 + :txn, :same);"
    )
    assert not _run(pg, script, protocol=protocol, transactions=20).errors
    drawn = words.execute("select spelling, met from words where id < 100").fetchall()
    assert len(drawn) == 20
    assert all(3 <= len(text) <= 9 for text, _ in drawn)
    assert {met for _, met in drawn} == {datetime(1970, 1, 1, tzinfo=UTC)}
    assert words.execute("select count(distinct spelling) from words where id >= 100").fetchone() \
        == (1,)  # fmt: skip


@pytest.mark.parametrize("protocol", _PROTOCOLS)
def test_an_expected_error_may_be_absent(
    pg: Cluster, words: psycopg.Connection[tuple[Any, ...]], protocol: str
) -> None:
    script = (
        "\\expect 23505 or success\ninsert into words (id) values (:txn % 5);\n"
        "insert into words (id) values (1000 + :txn);"
    )
    run = _run(pg, script, protocol=protocol, transactions=20)
    assert run.total["done"] == 20
    assert run.total["expected_errors"] == 15
    assert words.execute("select count(*) from words where id >= 1000").fetchone() == (20,)
    other = _run(pg, script.replace("23505", "22012"), protocol=protocol, transactions=5)
    assert {code for code, _, _ in other.errors} == {"23505"}


_NO_VALUES = {
    "\\set x 5\n\\set y :x[1]": "is not an element that is a number",
    "\\array a 1 random_uuid()\n\\set y :a[1]": "is not an element that is a number",
    "\\set n -1\n\\array a :n 1": "-1 is not a number of elements",
    "\\set n 65536\n\\array a :n 1": "65536 elements are too many",
    "\\set t random_text(9, 3)": "empty range given to random_text: 9 to 3",
    "\\set t text_of(1, 65536)": "a text has 0 to 65535 characters, not 65536",
    "\\set t timestamp(1e18)": "timestamp out of range",
    "\\set t random_text(3) + 1": "cannot convert text to int",
}


@pytest.mark.parametrize("script", _NO_VALUES)
def test_values_that_cannot_be(pg18: Cluster, script: str) -> None:
    run = _run(pg18, f"{script}\nselect 1;")
    messages = [row["message"] for i in run.intervals for row in i["errors"]]
    assert len(messages) == 1
    assert _NO_VALUES[script] in messages[0]
