"""The SQL files of the probes: every supported server version is covered once, columns agree."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from pgdyno.probe._link import Query, all_queries, first_version, queries_for
from pgdyno.probe._server_sampler import PLAIN, SELDOM
from pgdyno.record.fileformat import columns

NAMES = sorted({query.name for query in all_queries()})
SUPPORTED = range(14, 19)
SINCE_16 = {"io"}


def of(name: str) -> list[Query]:
    return [query for query in all_queries() if query.name == name]


def selected(text: str) -> list[str]:
    """Names of the columns of a query's outermost select."""
    code = re.sub(r"--[^\n]*", "", text)
    flat, depth = "", 0
    for char in code:
        depth += (char == "(") - (char == ")")
        flat += char if depth == 0 else ""
    listed = re.findall(r"\bselect\b(.*?)\bfrom\b", flat + " from", re.DOTALL)[-1]
    return [re.findall(r"\w+", item)[-1] for item in listed.split(",")]


@pytest.mark.parametrize("name", NAMES)
def test_versions_are_covered_without_gap_or_overlap(name: str) -> None:
    ranges = [(query.first, query.last) for query in of(name)]
    assert ranges[0][0] == (16 if name in SINCE_16 else 14)
    assert ranges[-1][1] is None, "a newer server than any known is asked too"
    for (_, last), (first, _) in pairwise(ranges):
        assert last is not None
        assert first == last + 1


@pytest.mark.parametrize("major", [*SUPPORTED, 19, 25])
def test_each_version_has_one_query_per_name(major: int) -> None:
    expected = {name for name in NAMES if first_version(name) <= major}
    assert queries_for(major).keys() == expected


@pytest.mark.parametrize("name", [*PLAIN, *SELDOM])
def test_columns_are_those_of_the_run_file(name: str) -> None:
    table = set(columns()[f"metric_{name}"]) - {"at_ms", "slice_id", "size_bytes"}
    for query in of(name):
        assert set(selected(query.text)) == table, f"{name} from {query.first}"


@pytest.mark.parametrize("query", all_queries(), ids=lambda query: f"{query.name}.{query.first}")
def test_files_explain_themselves_and_only_read(query: Query) -> None:
    assert query.text.startswith("-- ")
    assert query.text.endswith("\n")
    assert ";" not in re.sub(r"--[^\n]*", "", query.text)
    code = re.sub(r"--[^\n]*", "", query.text)
    assert not re.search(r"\b(update|delete|insert|create|drop|alter|pg_terminate)\b", code)
    assert all(len(line) <= 100 for line in query.file.read_text().splitlines())
