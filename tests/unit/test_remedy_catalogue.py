"""The price list: every entry says what it costs, and its lines are what one would type."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.remedy import Remedy, catalogue, within
from pgdyno.spec.change import Change


@pytest.mark.parametrize("remedy", catalogue().values(), ids=lambda remedy: remedy.id)
def test_every_remedy_is_priced(remedy: Remedy) -> None:
    for text in (remedy.summary, remedy.bound, remedy.price):
        assert text
        assert not text.endswith(".")
    assert (remedy.durability_class == "D0") == remedy.bound.startswith("nothing is lost")
    assert bool(remedy.settings) == (remedy.kind in ("reload", "restart"))


def test_a_durability_budget_covers_what_loses_no_more() -> None:
    remedies = catalogue()
    assert within(remedies["pool-size"], "D0")
    assert not within(remedies["synchronous-commit-off"], "D0")
    assert within(remedies["synchronous-commit-off"], "D1")
    assert not within(remedies["full-page-writes-off"], "D1")
    assert within(remedies["fsync-off"], "D3")


def test_lines_of_a_setting() -> None:
    remedy = catalogue()["checkpoint-distance"]
    change = Change(settings={"max_wal_size": "16GB", "checkpoint_timeout": "15min"})
    assert remedy.lines_to_apply(change) == [
        "ALTER SYSTEM SET max_wal_size = '16GB';",
        "ALTER SYSTEM SET checkpoint_timeout = '15min';",
        "SELECT pg_reload_conf();",
    ]
    assert remedy.lines_to_undo(change, Change(settings={"max_wal_size": "1GB"})) == [
        "ALTER SYSTEM SET max_wal_size = '1GB';",
        "ALTER SYSTEM RESET checkpoint_timeout;",
        "SELECT pg_reload_conf();",
    ]


def test_lines_of_a_setting_that_needs_a_restart() -> None:
    lines = catalogue()["wal-buffers"].lines_to_apply(Change(settings={"wal_buffers": "64MB"}))
    assert lines[0] == "ALTER SYSTEM SET wal_buffers = '64MB';"
    assert "restart" in lines[1]
    assert "pg_reload_conf" not in "".join(lines)


def test_lines_of_a_pool() -> None:
    remedy, change = catalogue()["pool-size"], Change(pool_max={"web": 16})
    (line,) = remedy.lines_to_apply(change)
    assert "web" in line
    assert "maximumPoolSize=16" in line
    assert "maximumPoolSize=2" in remedy.lines_to_undo(change, Change(pool_max={"web": 2}))[0]


def test_lines_of_a_table() -> None:
    remedy = catalogue()["fillfactor"]
    change = Change(table_options={"public.Order lines": {"fillfactor": "80"}})
    assert remedy.lines_to_apply(change) == [
        'ALTER TABLE public."Order lines" SET (fillfactor = 80);'
    ]
    assert remedy.lines_to_undo(change) == ['ALTER TABLE public."Order lines" RESET (fillfactor);']


@given(st.text())
def test_values_cannot_break_out_of_their_quotes(value: str) -> None:
    remedy = catalogue()["commit-delay"]
    line = remedy.lines_to_apply(Change(settings={"commit_delay": value}))[0]
    inner = line.removeprefix("ALTER SYSTEM SET commit_delay = '").removesuffix("';")
    assert inner.replace("''", "") == inner.replace("''", "").replace("'", "")


@given(st.text().filter(lambda name: not re.fullmatch("[a-z0-9_.]*", name)))
def test_names_that_are_no_settings_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a setting"):
        catalogue()["commit-delay"].lines_to_apply(Change(settings={name: "1"}))
