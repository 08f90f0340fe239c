"""Statements whose plan differs between the sides of a comparison, or between two runs, on servers
of pgdyno's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgdyno.compare.change import compare
from pgdyno.conduct import Session, Silent, open_session
from pgdyno.investigate.run import run_spec
from pgdyno.record import RunFile
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.report.words.diff import diff
from pgdyno.results import load
from pgdyno.results.diff import LoadFigures
from pgdyno.results.plans import ComparedPlans
from pgdyno.spec import Change, spec_from_fields
from pgdyno.stats import PairedEffect
from pgdyno.stats._plan import PairPlan
from pgdyno.trial import pairs

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("patient_look")]

SETUP = """
create table item (id int primary key, kind int, total int);
insert into item select i, i % 500, i % 100 from generate_series(1, 60000) i;
create index item_kind on item (kind);
analyze item;
"""
LOOKUP = "select sum(total) from item where kind = :k;"
SCRIPT = f"\\set k random(1, 400)\n{LOOKUP}\nselect 1;\n\\sleep 5 ms\n"
NO_INDEX = {"enable_indexscan": "off", "enable_bitmapscan": "off", "enable_indexonlyscan": "off"}


def opened(
    directory: Path, command: str, setup: str = SETUP, script: str = SCRIPT, **load: Any
) -> Any:
    directory.mkdir(exist_ok=True)
    (directory / "setup.sql").write_text(setup)
    (directory / "lookup.sql").write_text(script)
    spec = spec_from_fields(
        {
            "server": {"kind": "embedded"},
            "workload": {
                "script": [{"file": str(directory / "lookup.sql")}],
                "setup": str(directory / "setup.sql"),
            },
            "clients": [{"name": "web", "count": 2}],
            "load": {"hold": "2s", "max_other_programs": 1, "seed": 5, **load},
        }
    )
    path = directory / "run.db"
    return open_session(spec, run=path, command=command, spec_text="", watcher=Silent())


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with opened(tmp_path_factory.mktemp("compared"), "compare") as session:
        yield session


def replanned(
    session: Session, change: Change, monkeypatch: pytest.MonkeyPatch
) -> ComparedPlans | None:
    """The statements whose plan differs under a change, in a comparison with two pairs."""
    alike = PairedEffect(1.0, 0.9, 1.1, 6, 0.05)
    noise = pairs.Noise(alike, alike, "throughput")
    monkeypatch.setattr("pgdyno.compare.change.measure_noise", lambda *_, **__: noise)
    monkeypatch.setattr("pgdyno.compare.change.WARM_UP_SECONDS", 0.2)
    monkeypatch.setattr(pairs, "plan_of", lambda *_, **__: PairPlan(2, 2))
    monkeypatch.setattr(Session, "_warm_up", lambda *_: None)
    session.prepare(Change())
    result = compare(session, change, budget_s=30.0, slice_s=0.4)
    assert load(session.reader()) == result
    return result.plans


def one(found: ComparedPlans | None) -> tuple[str, str]:
    """The forms of the only statement whose plan differs."""
    assert found is not None
    assert (found.statements, found.without_plan) == (2, 0)
    (pair,) = found.differing
    assert pair.statement == LOOKUP.rstrip(";")
    assert pair.a.mean_ms
    assert pair.b.mean_ms
    return pair.a.nodes, pair.b.nodes


def test_a_setting_that_changes_a_plan(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = one(replanned(session, Change(settings=NO_INDEX), monkeypatch))
    assert "item_kind" in before
    assert after == "Aggregate > Seq Scan on public.item"
    said = [line.text for line in summary_lines(session.reader(), 200)]
    assert any("Seq Scan on public.item" in line for line in said)


def test_a_setting_that_changes_none(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    found = replanned(session, Change(settings={"commit_delay": "100"}), monkeypatch)
    assert found is not None
    assert (found.statements, found.differing) == (2, ())


def test_an_index(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    change = Change(indexes={"public.item": "kind, total"})
    before, after = one(replanned(session, change, monkeypatch))
    assert "using item_kind" in before
    assert "item_kind_total" in after


def test_a_protocol(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol of a side is that in which its plans are made: both have the same form here."""
    found = replanned(session, Change(spec={"load.protocol": "simple"}), monkeypatch)
    assert found is not None
    assert found.differing == ()
    for side, kinds in (("a", {True}), ("b", {None})):
        ids = [each.id for each in session.reader().slices("trial") if each.side == side]
        rows = session.reader().statement_plans(ids)[-2:]
        assert {row.is_generic for row in rows} == kinds


PARTED = """
create table item (id int primary key, kind int, total int) partition by range (id);
create table item_low partition of item for values from (0) to (30000);
create table item_high partition of item for values from (30000) to (70000);
insert into item select i, i % 500, i % 100 from generate_series(1, 60000) i;
analyze item;
"""


def test_two_runs_of_other_partitions(tmp_path: Path) -> None:
    runs = []
    for name, least in (("low", 1), ("high", 40000)):
        script = (
            f"\\set i random({least}, {least + 20000})\nselect total from item where id = :i;\n"
        )
        with opened(tmp_path / name, "run", PARTED, script, protocol="simple") as session:
            run_spec(session)
        runs.append(RunFile(tmp_path / name / "run.db"))
    forms = [run.statement_plans()[0].plan or "" for run in runs]
    assert "item_low_pkey" in forms[0]
    assert "item_high_pkey" in forms[1]
    figures = diff(*runs).figures
    assert isinstance(figures, LoadFigures)
    assert figures.plans is not None
    assert (figures.plans.statements, figures.plans.differing) == (1, ())


@pytest.mark.long
def test_two_runs(tmp_path: Path) -> None:
    paths = {}
    for name, setup in (
        ("with", SETUP),
        ("without", SETUP.replace("create index item_kind on item (kind);", "")),
        ("again", SETUP),
    ):
        with opened(tmp_path / name, "run", setup) as session:
            run_spec(session)
        paths[name] = RunFile(tmp_path / name / "run.db")
    figures = diff(paths["with"], paths["without"]).figures
    assert isinstance(figures, LoadFigures)
    before, after = one(figures.plans)
    assert "item_kind" in before
    assert after == "Aggregate > Seq Scan on public.item"
    alike = diff(paths["with"], paths["again"]).figures
    assert isinstance(alike, LoadFigures)
    assert alike.plans is not None
    assert (alike.plans.statements, alike.plans.differing) == (2, ())
