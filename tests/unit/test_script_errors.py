"""Errors of scripts: all at once, and what to write instead."""

from __future__ import annotations

import re

import pytest

from pgdyno.errors import UsageError
from pgdyno.workload._script_errors import check_copy_data, check_script_text


def refused(text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        check_copy_data(text, check_script_text(text, "a.sql"), "a.sql")
    return caught.value


def lines_of(error: UsageError) -> list[int]:
    return [int(number) for number in re.findall(r"^a\.sql:(\d+):", error.message, re.MULTILINE)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\\setrandom aid 1 :n", "\\set aid random(1, :n)"),
        ("  \\SetRandom aid 1 10 uniform", "\\set NAME random(1, 10)"),
        ("\\setrandom aid 1 :n gaussian 2.5", "\\set aid random_gaussian(1, :n, 2.5)"),
        ("\\setrandom aid 1 :n exponential :p", "\\set aid random_exponential(1, :n, :p)"),
        ("\\setrandom", "\\set NAME random(1, 10)"),
    ],
)
def test_what_pgbench_had_once_is_written_as_today(old: str, new: str) -> None:
    error = refused(f"{old}\nselect :aid;")
    assert new in (error.hint or "")
    defined = "\\set n 1\n\\set p 2\n"
    assert check_script_text(f"{defined}{new}\nselect 1;", "a.sql") == ["select 1"]


BAD = {
    "\\fo\n\\set x 1 +\nselect 1;\n\\sleep x\n": [1, 2, 4],
    "\\if 1 +\nselect 1;\n\\elif\n\\else\n\\endif\n\\set\n": [1, 3, 6],
    "\\post a b\n\\header X: y\n\\body z\n\\status none\n\\get c\n\\follow\n": [1, 4, 5],
    "\\set a 1 + \\\n 2 + \\\n +\nselect :a;\n\\set b 1 +\n": [3, 5],
    "\\for i 1\n\\for j x\n\\set a 1 +\n\\endfor x\n\\endfor\nselect 1;": [2, 3, 4],
    "\\for i 2\nselect 1;": [1],
    "\\startpipeline x\nselect 1;\n\\endpipeline\n\\nothing\n": [1, 4],
    "\\set a 1 +\n\\endif\n\\set b 1 +\n": [1, 2],  # Where blocks end is not known any more.
    "select 'a;\n\\set b 1 +\n": [1],
    "\\fo\n" * 20: [1, 2, 3, 4, 5, 6, 7, 8],
}


@pytest.mark.parametrize("text", BAD)
def test_all_errors_are_named_at_once(text: str) -> None:
    assert lines_of(refused(text)) == BAD[text]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("copy t from stdin;\n", 1),
        ("select 1;\n\nCOPY t (a)\n  FROM stdin WITH (format csv);\nselect 2;", 3),
        ("/* a */ copy t from stdin", 1),
        ("begin; copy t from stdin; commit;", 1),
        ("copy t from stdin;\n1\n\\.\n", 3),
    ],
)
def test_copy_without_rows_points_to_them(text: str, line: int) -> None:
    error = refused(text)
    assert lines_of(error) == [line]
    assert "\\rows" in (error.hint or "")


@pytest.mark.parametrize(
    "text",
    [
        "copy t from stdin \\rows 10 :row\n",
        "copy t (a)\nfrom stdin\n  \\rows 10 :row\nselect 1;",
        "-- copy t from stdin;\nselect 'copy t from stdin;';",
        "copy t from '/tmp/x';\ncopy t to stdout;",
    ],
)
def test_other_copies_are_taken(text: str) -> None:
    check_copy_data(text, check_script_text(text, "a.sql"), "a.sql")
