"""The table of errors in the reference is what the code raises."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from pgdyno import errors

ROOT = Path(__file__).parents[2]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("error_table")


def test_the_table_is_fresh(table: ModuleType) -> None:
    generate = importlib.import_module("generate")
    assert generate.ERRORS.read_text() == generate.errors(), "run make docs"


def test_the_code_of_every_error_can_be_made_out(table: ModuleType) -> None:
    assert table.found().unclear == []


def test_every_class_of_the_tree_is_in_the_table(table: ModuleType) -> None:
    assert set(table.STATUSES) == {each.__name__ for each in errors.PgdynoError.__subclasses__()}


def test_every_code_in_the_sources_is_in_the_table_and_the_other_way_round(
    table: ModuleType,
) -> None:
    """Counted apart from the table's own way: by the letters of the sources."""
    written: set[str] = set()
    for path in (ROOT / "src" / "pgdyno").rglob("*.py"):
        written |= set(re.findall(r'\bcode="([a-z-]+)"', path.read_text()))
    told = {row.code for row in table.found().rows}
    assert written <= told
    strange = {code for code in told - written if not re.fullmatch(r"[a-z]+(-[a-z]+)*", code)}
    assert strange <= {"{what}-file"}


def test_codes_are_told_with_what_they_say(table: ModuleType) -> None:
    rows = {row.code: row for row in table.found().rows}
    assert rows["report-exists"].message.startswith("{path}: a file with this name exists")
    assert rows["report-exists"].hint.startswith("only reports are overwritten")
    assert rows["no-connection-left"].message == "{place}: {reason}"
    assert rows["spec-syntax"].kind == "UsageError"
    assert "connection-refused" in table.engine_codes()
