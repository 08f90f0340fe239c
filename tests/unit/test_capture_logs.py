"""Transactions from a server's log, and the kinds that they are of."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.capture._log_lines import Period
from pgdyno.capture._logs import Whole, check_logs, transactions_in
from pgdyno.capture._transactions import Seen
from pgdyno.capture._whole import all_kinds, whole_kinds
from pgdyno.errors import UsageError

DAY = Period("2026-01-02 00:00:00.000", "2026-01-02 23:59:59.999")
COLUMNS = (
    *("timestamp", "user", "dbname", "pid", "remote_host", "session_id", "line_num", "ps"),
    *("session_start", "vxid", "txid", "error_severity", "state_code", "message", "detail"),
    *("hint", "internal_query", "internal_position", "context", "statement", "cursor_position"),
    *("location", "application_name", "backend_type", "leader_pid", "query_id"),
)
DURATION = "duration: 0.123 ms  "


class Log:
    """Lines that are added session by session."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    def add(self, session: str, tag: str, vxid: str, id_: int, **more: object) -> None:
        """Add a line."""
        number = 1 + sum(row["session_id"] == session for row in self.rows)
        self.rows.append(
            {
                "timestamp": "2026-01-02 10:00:00.000 CET",
                "user": "ann",
                "dbname": "shop",
                "session_id": session,
                "line_num": number,
                "ps": tag,
                "vxid": vxid,
                "state_code": "00000",
                "message": f"{DURATION}statement: select 'secret',\n \"x\"",
                "application_name": "web",
                "query_id": id_,
                **more,
            }
        )

    def as_json(self) -> str:
        """Return the lines as jsonlog, which leaves out what is nothing."""
        rows = [{key: row[key] for key in row if row[key] != "00000"} for row in self.rows]
        return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)

    def as_csv(self) -> str:
        """Return the lines as csvlog, where the server quotes all texts but a few."""
        return "".join(
            ",".join(
                ""
                if name not in row
                else str(row[name])
                if name in ("timestamp", "session_id", "vxid") or isinstance(row[name], int)
                else '"' + str(row[name]).replace('"', '""') + '"'
                for name in COLUMNS
            )
            + "\n"
            for row in self.rows
        )


@pytest.fixture
def log() -> Log:
    """A log of two sessions, one with a block and one without; and lines that count nothing."""
    log = Log()
    log.add("a0.1", "COMMIT", "3/0", 9)  # Of a block that began before.
    log.add("a0.1", "BEGIN", "3/1", 1)
    log.add("b0.1", "SELECT", "4/0", 7)
    log.add("a0.1", "PARSE", "3/1", 2)
    log.add("a0.1", "BIND", "3/1", 2)
    log.add("a0.1", "SELECT", "3/1", 2, message=f"{DURATION}plan:\nQuery Text: select 1")
    log.add("a0.1", "SELECT", "3/1", 2)
    log.add("a0.1", "UPDATE", "3/1", 3, message="temporary file: size 17", statement="x")
    log.add("a0.1", "UPDATE", "3/1", 3, message="duración: 7.001 ms  ejecutar S_1: x")
    log.add("a0.1", "ROLLBACK", "3/1", 8)  # To a savepoint.
    log.add("a0.1", "UPDATE", "3/1", 3)
    log.add("a0.1", "UPDATE", "3/1", 3, dbname="other")
    log.add("a0.1", "COMMIT", "3/0", 0)
    log.add("b0.1", "SELECT", "4/0", 7, state_code="42P01", message="relation does not exist")
    log.add("b0.1", "SELECT", "4/9", 5)
    log.add("b0.1", "SELECT", "4/9", 6)  # A pipeline.
    log.add("b0.1", "SELECT", "4/10", 7)
    log.add("b0.1", "BEGIN", "4/11", 1)
    log.add("b0.1", "SELECT", "4/11", 7)  # Not ended.
    return log


EXPECTED = [
    Whole(("2", "3", "8", "3"), block=True, client=("ann", "web")),
    Whole(("7",), block=False, client=("ann", "web")),
    Whole(("5", "6"), block=False, client=("ann", "web")),
    Whole(("7",), block=False, client=("ann", "web")),
]


def test_transactions_of_both_formats(log: Log, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(log.as_csv())
    (tmp_path / "x.json").write_text(log.as_json())
    (tmp_path / "x.log").write_text("2026-01-02 10:00:00.000 CET [1] LOG:  started\n")
    for name in ("x.csv", "x.json", ""):
        check_logs([tmp_path / name])
        found = transactions_in([tmp_path / name], "shop", DAY)
        assert (found.transactions, found.gaps) == (EXPECTED, [])


def test_older_files_of_a_directory_are_not_read(log: Log, tmp_path: Path) -> None:
    old, oldest = Log(), Log()
    old.add("c0.1", "SELECT", "7/0", 3, timestamp="2026-01-01 10:00:00.000 CET")
    oldest.add("d0.1", "SELECT", "8/0", 3)
    for age, each in enumerate([log, old, oldest]):
        path = tmp_path / f"{age}.json"
        path.write_text(each.as_json())
        os.utime(path, (1e9 - age, 1e9 - age))
    assert transactions_in([tmp_path], "shop", DAY).transactions == EXPECTED


def test_the_last_hour_of_an_older_log(log: Log, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(log.as_csv())
    later = Period("2026-03-01 00:00:00.000", "2026-03-01 01:00:00.000")
    found = transactions_in([path], "shop", later)
    assert found.transactions == EXPECTED
    assert len(found.gaps) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b'2026-01-02 10:00:00.001 CET,"ann","shop",7,"h",a0.1,99,"SEL'),
        (b"\xff\x00\xfe\n", b"\n\xff"),
    ],
)
def test_cut_and_damaged_lines_are_left_out(
    log: Log, tmp_path: Path, before: bytes, after: bytes
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(before + log.as_csv().encode() + after)
    found = transactions_in([path], "shop", DAY)
    assert found.transactions == EXPECTED
    assert len(found.gaps) == (not before)


@given(data=st.data())
def test_any_bytes_are_a_log(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    log = Log()
    for number in range(4):
        log.add("a0.1", "SELECT", f"3/{number}", number)
    content = bytearray(data.draw(st.sampled_from([log.as_csv(), log.as_json()])).encode())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=8)):
        content[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    later = Period("2026-03-01 00:00:00.000", "2026-03-01 01:00:00.000")
    for period in (DAY, later):
        assert len(transactions_in([path], "shop", period).transactions) <= 4


@pytest.mark.parametrize("ids", [{"query_id": 0}, {"dbname": "other"}, {"ps": "SELECT"}])
def test_a_log_that_tells_no_transactions(log: Log, tmp_path: Path, ids: dict[str, object]) -> None:
    log.rows = [{**row, **ids} for row in log.rows]
    path = tmp_path / "x.json"
    path.write_text(log.as_json())
    found = transactions_in([path], "shop", DAY)
    assert not found.transactions
    assert len(found.gaps) == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("none.csv", None),
        ("text.csv", "2026-01-02 10:00:00.000 CET [1] LOG:  database system is ready\n"),
        ("other.csv", "a,b,c\n1,2,3\n"),
        ("old.csv", "2026-01-02 10:00:00.000 CET," + "," * 22 + "\n"),
        ("binary.json", "\x00\x01{"),
        ("empty/x.log", "x"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path: Path, name: str, content: str | None) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError) as refused:
        check_logs([path if path.suffix != ".log" else path.parent])
    assert refused.value.code == "capture-log"
    assert refused.value.hint is not None


def test_alternatives_stay_apart_and_rare_ones_join() -> None:
    usual = [Whole(("a", "b", "b", "c"), block=True)] * 600
    other = [Whole(("a", "d"), block=True)] * 300
    rare = [Whole(("a", "x", "b", "c"), block=True)]
    single = [Whole(("s",), block=False)] * 100
    calls = {"a": 90_100.0, "b": 120_100.0, "c": 60_100.0, "d": 30_000.0, "s": 10_000.0, "x": 100.0}
    first, second, third = whole_kinds(calls, [*usual, *other, *rare, *single])
    assert first.statements == ("a", "x", "b", "c")
    assert first.times == pytest.approx((1, 1 / 601, 1201 / 601, 1))
    assert first.shares == pytest.approx((1, 1 / 601, 1, 1))
    assert (second.statements, third.statements) == (("a", "d"), ("s",))
    counts = [each.transactions for each in (first, second, third)]
    assert counts == pytest.approx([60_100, 30_000, 10_000], rel=0.001)
    assert [each.block for each in (first, second, third)] == [True, True, False]


def test_counts_of_the_server_decide_how_many_there_are() -> None:
    # By chance the log has too many of one.
    seen = [Whole(("a", "b"), block=True)] * 30 + [Whole(("c",), block=True)] * 70
    kinds = whole_kinds({"a": 500.0, "b": 500.0, "c": 500.0}, seen)
    assert [each.transactions for each in kinds] == pytest.approx([500, 500], rel=0.01)


def test_statements_that_the_log_has_not_are_grouped_as_they_were_seen() -> None:
    calls = {"a": 100.0, "b": 100.0, "c": 50.0, "d": 50.0}
    whole = [Whole(("a", "b"), block=True)] * 9
    kinds = all_kinds(calls, whole, Seen(1.0, [["a", "b"], ["c", "d"]]), begins=150)
    assert [each.statements for each in kinds] == [("a", "b"), ("c", "d")]
    assert kinds[0].times == (1, 1)
    assert all_kinds(calls, [], Seen(1.0, []), 0) != kinds


def test_statements_of_the_log_without_a_block_form_units() -> None:
    whole = [Whole((each,), block=False) for each in "abc"] * 9
    whole += [Whole(("d", "c"), block=True)] * 9
    runs = [
        (pid, [(second * 1_000_000 + place * 1000, each) for place, each in enumerate("abcd")])
        for second in range(9)
        for pid in (1, 2)
    ]
    calls = {"a": 9000.0, "b": 9001.0, "c": 18_000.0, "d": 9000.0}
    kinds = all_kinds(calls, whole, Seen(9.0, [], runs), begins=9000)
    # Statement c is within a block too, and how often it is alone is known.
    assert {(each.statements, each.is_unit) for each in kinds} == {
        (("a", "b"), True),
        (("d", "c"), False),
        (("c",), False),
    }
