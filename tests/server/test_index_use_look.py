"""Indexes that are there and cannot be used, on servers of pgdyno's: the reason that is named, and
the null control with an index that can."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_runs import diagnosed, of

from pgdyno.record.finding import Finding
from pgdyno.spec import Change

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("patient_look")]

ROWS = """
create table item (id int primary key, kind int, total int, name text);
insert into item select i, i % 500, i % 100, 'name ' || i from generate_series(1, 60000) i;
create function weighed(n int) returns int language plpgsql volatile as
  $$ begin return n * 2; end $$;
create index by_name on item (name);
{more}
analyze item;
"""
KIND = "\\set k random(1, 400)\nselect sum(total) from item where kind = :k;\n"
INVALID = """
create index other on item (kind);
update pg_catalog.pg_index set indisvalid = false where indexrelid = 'other'::regclass;
"""


def evidence(found: Finding) -> dict[str, object]:
    return {each.name: each.value for each in found.evidence}


@pytest.mark.parametrize(
    ("made", "reason", "commands"),
    [
        (INVALID, "invalid", ("REINDEX INDEX CONCURRENTLY public.other",)),
        ("create index other on item using brin (kind);", "method", ()),
        ("create index other on item (id, kind);", "later column", ()),
        ("create index other on item (kind) where total < 0;", "predicate", ()),
        ("create index other on item ((kind + 0));", "of expression", ()),
    ],
)
def test_an_index_with_a_reason_of_its_own(
    tmp_path: Path, made: str, reason: str, commands: tuple[str, ...]
) -> None:
    found = diagnosed(tmp_path, KIND, ROWS.format(more=made))
    cause = of(found, "missing-index")
    assert cause.status == "found"
    assert [each.change for each in cause.proposals] == [Change(indexes={"public.item": "kind"})]
    said = evidence(cause)
    assert (said["index that cannot be used"], said["reason"]) == ("public.other", reason)
    assert cause.commands == commands
    assert of(found, "unusable-index").status == "cleared"


@pytest.mark.parametrize(
    ("made", "condition", "index", "clause"),
    [
        (
            "create index other on item (id, kind);",
            "kind = :k",
            "kind",
            "public.item is searched in an index that begins with id, as it has no index on kind",
        ),
        (
            "create index other on item (total);",
            "kind = :k and total = :k % 10",
            "total, kind",
            "an index scan of public.item discards 5,880 of 6,000 rows, as there is no index on"
            " total, kind",
        ),
    ],
)
def test_an_index_that_leaves_much_to_read(
    tmp_path: Path, made: str, condition: str, index: str, clause: str
) -> None:
    wide = (
        "alter table item alter name type text using repeat('x', 900),"
        f" alter total type int using id % 10; {made}"
    )
    script = f"\\set k random(1, 400)\nselect sum(total) from item where {condition};\n"
    found = diagnosed(tmp_path, script, ROWS.format(more=wide))
    cause = of(found, "missing-index")
    assert cause.status == "found"
    assert Change(indexes={"public.item": index}) in [each.change for each in cause.proposals]
    assert cause.sentence.startswith(f"{clause}: a statement takes ")


@pytest.mark.parametrize(
    ("condition", "reason", "command"),
    [
        (
            "id = (:k)::numeric",
            "cast",
            "CREATE INDEX CONCURRENTLY ON public.item (((id)::numeric))",
        ),
        ("id + 0 = :k", "expression", "CREATE INDEX CONCURRENTLY ON public.item ((id + 0))"),
        ("id = weighed(:k) / 2", "volatile", "ALTER FUNCTION public.weighed(integer) STABLE"),
    ],
)
def test_a_condition_that_hides_an_index(
    tmp_path: Path, condition: str, reason: str, command: str
) -> None:
    script = f"\\set k random(1, 400)\nselect sum(total) from item where {condition};\n"
    found = diagnosed(tmp_path, script, ROWS.format(more=""), protocol="simple")
    cause = of(found, "unusable-index")
    assert cause.status == "found"
    assert evidence(cause)["reason"] == reason
    assert cause.commands == (command,)
    assert not cause.proposals


def test_an_index_of_partitions_is_tried_on_all_of_them(tmp_path: Path) -> None:
    rows = """
    create table part (id int primary key, total int) partition by range (id);
    create table part_1 partition of part for values from (0) to (20000);
    create table part_2 partition of part for values from (20000) to (40001);
    insert into part select i, i % 100 from generate_series(1, 40000) i;
    analyze part;
    """
    script = "\\set k random(1, 400)\nselect sum(total) from part where id + 0 = :k;\n"
    cause = of(diagnosed(tmp_path, script, rows), "unusable-index")
    assert cause.status == "found"
    assert cause.share is not None
    assert cause.share > 0.6  # One of two partitions would be half of it.


def test_an_index_that_is_used(tmp_path: Path) -> None:
    rows = ROWS.format(more="create index other on item (kind);")
    found = diagnosed(tmp_path, KIND, rows)
    assert of(found, "unusable-index").status == "cleared"
    assert of(found, "missing-index").status == "cleared"
