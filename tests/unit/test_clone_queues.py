"""Transactions that take the rows which others put: one follows the other in a script."""

from __future__ import annotations

import re

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno._engine import check_script
from pgdyno.clone import Capture, clone_of
from pgdyno.clone.capture_file import (
    SHORTENED,
    Application,
    Column,
    Parameter,
    Source,
    Statement,
    Step,
    Table,
    Transaction,
    Use,
)
from pgdyno.clone.queues import scripts_per_s, takings

_BATCH, _NOTE = Column("batch_id", "bigint", "int8"), Column("note", "integer", "int4", distinct=5)
_JOBS = Table("public", "jobs", 12, 1, (_BATCH, _NOTE))
_BATCHES = Table("public", "batches", 500, 5, (_BATCH,), keys=(("batch_id",),), has_primary=True)


def _parameter(use: Use, table: str = "jobs", column: str = "batch_id") -> Parameter:
    return Parameter("bigint", use, f"public.{table}", column)


_PUT = Statement(
    "insert into jobs (batch_id, note) values ($1, $2), ($3, $4)",
    (_parameter("inserted"), _parameter("inserted", column="note")) * 2,
    10.0,
    2.0,
    0.1,
    0.0,
)
_BEGUN = Statement(
    "insert into batches (batch_id) values ($1)",
    (_parameter("inserted", "batches"),),
    12.0,
    1.0,
    0.1,
    0.0,
)
_TAKEN = Statement(
    "delete from jobs where batch_id = $1", (_parameter("compared"),), 12.0, 20 / 12, 0.1, 0.0
)
_PUTS, _TAKES = Transaction(10.0, (Step(0),)), Transaction(12.0, (Step(1), Step(2)), block=True)


def _capture(*transactions: Transaction, table: Table = _JOBS) -> Capture:
    source = Source(18, 60.0, 22.0, 4, 1.0)
    statements = (
        _PUT,
        _BEGUN,
        _TAKEN,
        replace(_TAKEN, text="select from jobs where batch_id = $1"),
    )
    tables = (table, _BATCHES)
    return Capture("pgdyno capture", 1, "pgdyno", source, tables, statements, transactions, ())


def test_the_rows_that_one_puts_are_those_that_the_other_takes() -> None:
    capture = _capture(_PUTS, _TAKES)
    clone = clone_of(capture, "x")
    for name, text in clone.scripts.items():
        check_script(text, name)
    assert clone.scripts["x-1-2.sql"] == snapshot("""\
\\set batches_batch_id_key 501 + (:began - 1735689600) * 16777216 + :txn * 4000 + :client_id
\\set jobs_note_key case when random(1, 1000) <= 417 then random(6, 2147483647) else random(1, 5) end
\\set jobs_note_key_2 case when random(1, 1000) <= 417 then random(6, 2147483647) else random(1, 5) end
insert into jobs (batch_id, note) values (:batches_batch_id_key, :jobs_note_key), (:batches_batch_id_key, :jobs_note_key_2);
begin;
insert into batches (batch_id) values (:batches_batch_id_key);
delete from jobs where batch_id = :batches_batch_id_key;
commit;
""")
    (group,) = clone.fields["clients"]
    assert [(each["file"], each["weight"]) for each in group["script"]] == [
        ("x-2.sql", 200),
        ("x-1-2.sql", 1000),
    ]
    assert group["arrival"] == {"rate": 12.0}
    assert scripts_per_s(capture) == 12.0


def test_no_script_is_left_of_what_takes_all() -> None:
    clone = clone_of(_capture(_PUTS, replace(_TAKES, per_s=10.0)), "x")
    assert [*clone.scripts] == ["x-1-2.sql"]


def test_what_nothing_follows_has_a_script_of_its_own() -> None:
    """The last COMMIT of a script is executed each time."""
    puts = replace(_PUTS, per_s=20.0, steps=(Step(0, 0.5),))
    clone = clone_of(_capture(puts, replace(_TAKES, per_s=10.0)), "x")
    assert [*clone.scripts] == ["x-1.sql", "x-1-2.sql"]
    alone, both = clone.scripts.values()
    assert "\\set chance random(501, 1000)\n\\if :chance <= 500\ninsert into jobs" in alone
    assert "\\set chance random(1, 500)\n\\if :chance <= 500\ninsert into jobs" in both
    assert both.endswith("commit;\n")


@pytest.mark.parametrize(
    "capture",
    [
        _capture(_PUTS, _TAKES, Transaction(3.0, (Step(3),))),
        _capture(_PUTS, replace(_TAKES, per_s=5.0)),
        _capture(_PUTS, _TAKES, table=replace(_JOBS, rows=1000)),
        _capture(replace(_PUTS, steps=(Step(0, 3.0),)), _TAKES),
        _capture(replace(_PUTS, steps=(Step(0), Step(2))), _TAKES),
        replace(
            _capture(_PUTS, _TAKES),
            applications=(Application(2, 1.0, (10.0, 0.0)), Application(2, 1.0, (0.0, 12.0))),
        ),
    ],
    ids=["others-read", "rows-stay", "rows-were-there", "loop", "own-rows", "other-application"],
)
def test_other_transactions_have_scripts_of_their_own(capture: Capture) -> None:
    assert takings(capture) == {}
    assert len(clone_of(capture, "x").scripts) == len(capture.transactions)


def test_rows_are_put_and_taken_in_several_numbers() -> None:
    one = replace(_PUT, text="insert into jobs (batch_id, note) values ($1, $2)", rows=1.0)
    one = replace(one, parameters=one.parameters[:2])
    listed = replace(_TAKEN, text=f"delete from jobs where batch_id in ($1 {SHORTENED})", rows=2.0)
    taken = replace(_TAKEN, rows=1.0)
    puts = Transaction(10.0, (Step(0, 0.3), Step(1, 0.7)))
    takes = Transaction(10.0, (Step(2, 0.7), Step(3, 0.3)))
    source, tables = Source(18, 60.0, 20.0, 4, 1.0), (_JOBS, _BATCHES)
    capture = Capture(
        "pgdyno capture", 1, "pgdyno", source, tables, (_PUT, one, taken, listed), (puts, takes), ()
    )
    assert {place: each.transaction for place, each in takings(capture).items()} == {0: 1}
    other = Transaction(1.0, (Step(3, 0.09),))
    assert 0 in takings(replace(capture, transactions=(puts, takes, other)))
    # Both have as many rows.
    (script,) = clone_of(capture, "x").scripts.values()
    check_script(script, "script.sql")
    assert script.count("\\set chance ") == 1
    assert re.findall(r"\\if (.*)", script) == [
        ":chance > 700 and :chance <= 1000",
        ":chance <= 700",
        ":chance <= 700",
        ":chance > 700 and :chance <= 1000",
    ]
