"""Capture files that are cut or altered: read, and then made into a clone, or refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pgdyno.clone import Capture, clone_of, read_capture, write_capture
from pgdyno.clone.capture_file import (
    Application,
    Column,
    Function,
    Parameter,
    Partitions,
    Reference,
    Scans,
    SeenFinding,
    Source,
    Statement,
    Step,
    Table,
    Transaction,
    View,
)
from pgdyno.clone.keys import Keys
from pgdyno.errors import UsageError

KEY = (
    Column("a", "integer", "int4", not_null=True, correlation=0.5, distinct=-1),
    Column("b", "character varying(9)", "varchar", frequent=(0.5, 0.2), null_share=0.1),
    Column("c", "numeric(8,2)", "numeric"),
    Column("d", "mood", "enum", labels=3),
    Column("e", "integer[]", "array", elements=3.0, distinct_elements=50.0),
    Column("f", "integer", "int4", generated="(a + 1)"),
)
TABLES = (
    Table("public", "t", 5000, 9, KEY, keys=(("a", "b"),), has_primary=True),
    Table(
        "public",
        "u",
        800,
        9,
        KEY,
        keys=(("b", "a"), ("c",)),
        references=(Reference(("a", "b"), "public.t", ("a", "b")),),
        partitions=Partitions("range", ("a",), 4),
        updates_per_s=9.0,
        hot_share=0.5,
        update_skew=1.1,
        triggers=("CREATE TRIGGER x BEFORE INSERT ON u FOR EACH ROW EXECUTE FUNCTION f()",),
        checks=("CHECK (a > 0)",),
        scans=(Scans(1.0, "a"),),
    ),
)
CAPTURE = Capture(
    format="pgdyno capture",
    version=1,
    made_by="pgdyno 0",
    source=Source(
        *(16, 60.0, 110.0, 8, 6.0),
        cpu_ms=0.2,
        waits={"cpu": 0.7, "lock": 0.3},
        findings=(SeenFinding("commit-flush", "minor"),),
    ),
    tables=TABLES,
    statements=(
        Statement(
            "insert into t (a, b) values ($1, $2) returning a",
            (
                Parameter("integer", "inserted", "public.t", "a"),
                Parameter("text", "inserted", "public.t", "b"),
            ),
            10.0,
            1.0,
            0.1,
            300.0,
        ),
        Statement(
            "select * from u where a = any ($1) limit $2",
            (Parameter("integer[]", "compared", "public.u", "a"), Parameter("bigint", "limit")),
            10.0,
            1.0,
            0.1,
            300.0,
        ),
    ),
    transactions=(Transaction(10.0, (Step(0), Step(1, 4.0, 0.5)), block=True),),
    gaps=(),
    functions=(Function("public", "f", "CREATE FUNCTION f() RETURNS trigger …"),),
    views=(View("public", "v", "select a from t"),),
    settings={"work_mem": "7MB"},
    applications=(Application(4, 3.0, (5.0,)), Application(4, 0.1, (5.0,))),
)
CONTENT: Any = msgspec.to_builtins(CAPTURE)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [0, -1, 1, 2, 10**9, -(10**9), 2**53, 10**30, 1e300, -0.5, "", "a", "public.t"]
    ),
    st.sampled_from([[], {}, [1], ["a"], [[]], "varchar(99999999999)", "$999999999", "int4[]"]),
    st.text(max_size=5),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values below one."""
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    return [path, *(each for key, item in inner for each in places(item, (*path, key)))]


CONTENT = msgspec.json.decode(msgspec.json.encode(CONTENT))
PLACES = places(CONTENT)[1:]


def altered(data: st.DataObject) -> Any:
    """Return the content of the file with some values changed, taken out, or there twice."""
    content = copy.deepcopy(CONTENT)
    for path in data.draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=3)):
        parent = content
        try:
            for key in path[:-1]:
                parent = parent[key]
            current = parent[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue
        match data.draw(st.sampled_from(["set", "set", "remove", "repeat"])):
            case "set":
                parent[path[-1]] = data.draw(VALUES)
            case "remove":
                del parent[path[-1]]
            case "repeat" if isinstance(parent, list):
                parent.append(current)
    return content


def read(path: Path, content: bytes) -> Capture | None:
    path.write_bytes(content)
    try:
        return read_capture(path)
    except UsageError as refused:
        assert refused.code in ("capture-malformed", "capture-version")
        assert "\n" not in refused.message
        return None


@given(data=st.data())
def test_an_altered_file_is_refused_or_made(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = read(
        tmp_path_factory.getbasetemp() / "altered.pgdyno", msgspec.json.encode(altered(data))
    )
    if found is not None:
        clone_of(found, "shop")
        clone_of(found, "shop", 0.5, one_group=True)


@given(data=st.data())
def test_a_damaged_file_is_refused_or_made(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.pgdyno"
    write_capture(CAPTURE, path)
    content = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[place] = data.draw(st.sampled_from(b'0123456789-eE"{}[],:. \x00\xff'))
    found = read(path, bytes(content)[: data.draw(st.integers(len(content) // 2, len(content)))])
    if found is not None:
        clone_of(found, "shop")


def changed(**values: Any) -> dict[str, Any]:
    return {**CONTENT, **values}


@pytest.mark.parametrize(
    "content",
    [
        changed(tables=[*CONTENT["tables"], CONTENT["tables"][0]]),
        changed(source={**CONTENT["source"], "seconds": -60}),
        changed(transactions=[{"per_s": 1.0, "steps": [{"statement": 0, "times": 10**9}]}]),
        changed(transactions=[{"per_s": 1.0, "steps": [{"statement": -1}]}]),
        changed(transactions=[{"per_s": 1.0, "steps": []}]),
        changed(transactions=[{"per_s": 1.0, "steps": [{"statement": 0}] * 2001}]),
        changed(transactions=[]),
        changed(
            statements=[
                {**each, "parameters": [{"type": "integer", "table": "public.x", "column": "a"}]}
                for each in CONTENT["statements"]
            ]
        ),
        changed(tables=[{**CONTENT["tables"][0], "name": "a\nb", "keys": [["none"]]}]),
        changed(source={**CONTENT["source"], "waits": {"cpu": 7.0}}),
        changed(views=[{"schema": "public", "name": "t", "sql": "select 1"}]),
        changed(settings={"x" * 2000: "1"}),
        changed(version=0),
        changed(version=2),
    ],
)
def test_what_no_capture_has_is_refused(content: Any, tmp_path: Path) -> None:
    assert read(tmp_path / "x.pgdyno", msgspec.json.encode(content)) is None


def test_numbers_that_are_none_are_refused(tmp_path: Path) -> None:
    text = msgspec.json.encode(CONTENT)
    for number in (b"NaN", b"Infinity", b"1e999"):
        assert read(tmp_path / "x.pgdyno", text.replace(b"110.0", number)) is None
    assert read(tmp_path / "x.pgdyno", b"[" * 100_000) is None


def test_references_in_circles_have_keys() -> None:
    columns = (Column("x", "integer", "int4"), Column("y", "integer", "int4"))
    one = Table(
        *("public", "one", 900, 9, columns),
        keys=(("x", "y"),),
        references=(Reference(("x",), "public.two", ("y",)),),
    )
    two = Table(
        *("public", "two", 900, 9, columns),
        keys=(("x", "y"),),
        references=(Reference(("x",), "public.one", ("y",)),),
    )
    both = (Reference(("x", "y"), "public.one", ("x", "y")),)
    for tables in ([one, two], [replace(one, references=()), replace(two, references=both)]):
        keys = Keys(tables)
        assert all(keys.count((each.full_name, "x")) >= 1 for each in tables)
    mutual = [
        replace(each, references=(Reference(("x",), f"public.{other}", ("x",)),))
        for each, other in ((one, "two"), (two, "one"))
    ]
    keys = Keys(mutual)
    assert keys.root(("public.one", "x")) == keys.root(("public.two", "x"))
    assert keys.count(("public.one", "x")) >= 1


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "long.pgdyno"
    with path.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(UsageError, match="longer than 64 MB"):
        read_capture(path)
