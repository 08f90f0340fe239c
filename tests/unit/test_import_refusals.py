"""JMeter plans that are refused as a whole: files outside of their directory, and no HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest
from jmeter_plans import element, plan, request

from pgdyno.errors import UsageError
from pgdyno.imports import Choices, Imported, read_foreign


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "secret.csv").write_text("root,x\n")
    inside = tmp_path / "plan"
    (inside / "below").mkdir(parents=True)
    (inside / "users.csv").write_text("ann,5\n")
    (inside / "below/users.csv").write_text("bob,6\n")
    (inside / "link.csv").symlink_to("../secret.csv")
    (inside / "near.csv").symlink_to("below/users.csv")
    (inside / "up").symlink_to("..")
    return inside


def with_file(name: str, place: Path, **chosen: bool) -> Imported:
    lines = element("CSVDataSet", filename=name, variableNames="login,shoe", name="users")
    path = place / "a.jmx"
    path.write_text(plan(lines, request("/${login}")))
    return read_foreign(path, Choices(**chosen))


OUTSIDE = ["../secret.csv", "link.csv", "up/secret.csv", "below/../../secret.csv", "/etc/passwd"]


@pytest.mark.parametrize("name", [*OUTSIDE, "absolute", "${__P(file,../secret.csv)}"])
def test_files_outside_are_asked_for(name: str, place: Path) -> None:
    name = str(place.parent / "secret.csv") if name == "absolute" else name
    for partial in (False, True):
        with pytest.raises(UsageError) as refused:
            with_file(name, place, partial=partial)
        assert refused.value.code == "import-outside-file"
        wanted = Path("/etc/passwd") if name == "/etc/passwd" else place.parent / "secret.csv"
        assert str(wanted) in refused.value.message
        assert "a.jmx:" in refused.value.message
        assert "--allow-files" in (refused.value.hint or "")
    if "passwd" not in name:
        found = with_file(name, place, outside_files=True)
        assert list(found.tables.values()) == ["root,x\n"]


@pytest.mark.parametrize("name", ["users.csv", "below/users.csv", "near.csv", "../plan/users.csv"])
def test_files_inside_are_read(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert with_file(name, place).tables
    monkeypatch.chdir(place)
    assert read_foreign(Path("a.jmx"), Choices()).tables


def test_a_tilde_is_no_home(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place.parent))
    monkeypatch.chdir(place)
    with pytest.raises(UsageError, match="cannot be read"):
        with_file("~/secret.csv", Path())


def test_links_in_a_circle_are_named(place: Path) -> None:
    (place / "circle").symlink_to("circle")
    with pytest.raises(UsageError) as refused:
        with_file("circle", place)
    assert refused.value.code == "import-incomplete"


SQL = element("JDBCSampler", name="sum", query="select 1")


@pytest.mark.parametrize(
    ("inside", "hint"),
    [(SQL + SQL, "-f FILE.sql -d"), (element("TCPSampler") + element("JSR223Sampler"), "-f FILE")],
)
def test_a_plan_without_http_says_what_it_has(inside: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jmx"
    path.write_text(plan(inside))
    for partial in (False, True):
        with pytest.raises(UsageError) as refused:
            read_foreign(path, Choices(partial=partial))
        assert refused.value.code == "import-no-http"
        assert hint in (refused.value.hint or "")
        assert "--partial" not in (refused.value.hint or "")
    assert ("JDBCSampler (2)" in refused.value.message) == (inside == SQL + SQL)


def test_of_a_plan_with_both_sql_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.jmx"
    path.write_text(plan(SQL, request("/a")))
    with pytest.raises(UsageError) as refused:
        read_foreign(path, Choices())
    assert refused.value.code == "import-incomplete"
    assert read_foreign(path, Choices(partial=True)).scripts
