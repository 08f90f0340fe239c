"""Workloads from specs: built-in mixes and the user's files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pgdyno.errors import UsageError
from pgdyno.spec import ScriptPart
from pgdyno.workload import Tables, load_mix
from pgdyno.workload._pgbench import _account_rows


@pytest.mark.parametrize("name", ["tpcb-like", "simple-update", "select-only"])
def test_pgbench_s_own_scripts_run_on_pgbench_s_tables(name: str) -> None:
    workload = load_mix(name)
    assert workload.name == name
    assert workload.tables is Tables.PGBENCH
    assert [script.weight for script in workload.scripts] == [1]


def test_mixed_has_the_described_shares_and_kinds() -> None:
    workload = load_mix("mixed")
    shares = {script.name: script.weight for script in workload.scripts}
    assert shares == {"insert": 60, "read": 20, "update": 18, "invalid": 1, "max-id": 1}
    texts = {script.name: script.text for script in workload.scripts}
    assert len(re.findall(r"random_uuid\(\)", texts["insert"])) == 5
    assert r"\expect 42601" in texts["invalid"]
    assert r"\gset" in texts["max-id"]
    statements = re.findall(r"^(select|update).* where id = :id;$", texts["update"], re.MULTILINE)
    assert statements == ["select", "update"]


def test_files_keep_their_weights_and_get_distinct_names(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "pay.sql").write_text("select 1;")
    (tmp_path / "idle.sql").write_text("select 2;")
    files = [
        ScriptPart(file=str(tmp_path / "a/pay.sql"), weight=3),
        ScriptPart(file=str(tmp_path / "b/pay.sql"), weight=1),
        ScriptPart(file=str(tmp_path / "idle.sql"), weight=0),
    ]
    workload = load_mix(files)
    assert [(script.name, script.weight) for script in workload.scripts] == [
        ("pay-1", 3),
        ("pay-2", 1),
    ]
    assert workload.tables is Tables.NONE


def test_a_file_that_uses_pgbench_s_tables_gets_them(tmp_path: Path) -> None:
    path = tmp_path / "own.sql"
    path.write_text("select abalance from pgbench_accounts where aid = 1;")
    assert load_mix([ScriptPart(file=str(path))]).tables is Tables.PGBENCH


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"-" * ((16 << 20) + 1), "is longer than 16 MB"),
    ],
)
def test_unusable_files_are_told_plainly(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "own.sql"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        load_mix([ScriptPart(file=str(path))])


def test_a_byte_order_mark_is_no_part_of_a_script(tmp_path: Path) -> None:
    path = tmp_path / "own.sql"
    path.write_bytes(b"\xef\xbb\xbfselect 1;\r\n")
    assert load_mix([ScriptPart(file=str(path))]).scripts[0].text.startswith("select")


def test_a_mistake_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "own.sql"
    path.write_text("select 1;\n\\set id randum(1, 10)\n")
    with pytest.raises(UsageError) as caught:
        load_mix([ScriptPart(file=str(path))])
    assert caught.value.message.startswith(f"{path}:2:")


def test_account_rows_are_every_account_once_in_order() -> None:
    rows = [
        tuple(int(field) for field in line.split(b"\t")[:3])
        for text, count in _account_rows(3)
        for line in text.splitlines()
        if count
    ]
    assert rows == [(aid, (aid - 1) // 100_000 + 1, 0) for aid in range(1, 300_001)]
