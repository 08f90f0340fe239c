"""The page of a story: its chapters, their expected and actual endings, and luck."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import drill_runs
import pytest
import report_runs
import result_samples

from pgdyno.errors import UsageError
from pgdyno.record import RunFile
from pgdyno.report.page._parts import OwnSection
from pgdyno.report.page._story import make_page
from pgdyno.report.page.html import render_story
from pgdyno.report.words.tables import Table
from pgdyno.results import store
from pgdyno.results.chapter import RecordedChapter

OF = {
    "name": "write-heavy-web",
    "description": "What commits wait for",
    "clients": [{"name": "web", "count": 16}],
    "story": [{"title": "a", "fault": "kill"}, {"title": "b", "fault": "kill"}] * 2,
}


def chapter(number: int, **more: Any) -> RecordedChapter:
    return result_samples.chapter(number, of=OF, **more)


def comparison(path: Path, told: RecordedChapter, **run: Any) -> RunFile:
    writer = report_runs.Writer(path, 30, command="compare", spec_text="", **run)
    tried = report_runs.Tried("compare", "async", report_runs.FREE, report_runs.ASYNC,
                              {"settings": {"synchronous_commit": "off"}})  # fmt: skip
    report_runs.write_trial(writer, tried)
    result = result_samples.compare_result(
        chapter=told, trustworthy=False, distrust=["another program was busy"]
    )
    store(writer.recorder, result)
    return RunFile(writer.finish())


def drilled(path: Path, told: RecordedChapter) -> RunFile:
    drill_runs.write_drill(path, drill_runs.sample_drill([3, 0]))
    with sqlite3.connect(path) as db:
        ((text,),) = db.execute("select result_json from run").fetchall()
        result = json.dumps({**json.loads(text), "chapter": told.to_json()})
        db.execute("update run set result_json = ?, name = 'write-heavy-web'", [result])
    db.close()
    return RunFile(path)


def tables_of(section: OwnSection) -> dict[str, Table]:
    """The tables of a section by their captions."""
    return {block.table.caption: block.table for block in section.blocks if block.table}


def test_all_chapters_in_their_order(tmp_path: Path) -> None:
    lucky = chapter(3, endings={"": "lost"}, expected="clean", as_expected=False,
                    luck=["nothing was under way"])  # fmt: skip
    runs = [
        drilled(tmp_path / "s-3.db", lucky),
        comparison(tmp_path / "s-1.db", chapter(1, expected="better", as_expected=True)),
    ]
    page = make_page(runs)
    overview, first, third = page.own
    assert [each.id for each in page.own] == ["overview", "chapter-1", "chapter-3"]
    assert page.verdict == (
        "2 of 4 chapters done: 1 of 2 as expected, luck played a part in 1; 1 not trusted"
    )
    assert [row[-1] for row in tables_of(overview)["All chapters"].rows] == ["no", "yes"]
    results = [said for block in first.blocks for said in block.bullets]
    terms = [text for block in first.blocks for _, text in block.terms]
    assert any("in 6 pairs" in said for said in results) or any("x [" in text for text in terms)
    banners = [block.banner.text for block in third.blocks if block.banner]
    assert "Nothing was under way." in banners
    tags = [tag.text for block in third.blocks for tag in block.tags]
    assert tags == ["lost", "not as expected"]
    assert "All cuts" in tables_of(third)
    assert len({chart.id for chart in page.charts}) == len(page.charts)
    text = render_story(runs)
    for entry in page.contents:
        assert f'id="{entry.id}"' in text
        assert len(entry.title) <= 90
    assert page.repeat_lines == [f"pgdyno story {tmp_path / 's-1.db'}"]


def test_what_is_no_chapter_is_refused(tmp_path: Path) -> None:
    plain = RunFile(report_runs.plain_run(tmp_path / "run.db"))
    with pytest.raises(UsageError, match="is not a chapter of a story"):
        make_page([plain])
    ours = comparison(tmp_path / "a-1.db", chapter(1))
    other = comparison(tmp_path / "b-2.db", chapter(2), name="another")
    with pytest.raises(UsageError, match="is of the story another"):
        make_page([ours, other])


ALONE = {**OF, "story": [
    {"title": "a", "run": True},
    {"title": "b", "run": True, "vary": {"workload.init.partitions": "8"}},
    {"title": "c", "run": True, "vary": {"load.protocol": "simple"}},
]}  # fmt: skip


def alone(path: Path, number: int, **spec: Any) -> RunFile:
    """A chapter that is a run without a change, of the story ``ALONE``."""
    writer = report_runs.Writer(path, 10, command="run", spec={**report_runs.SPEC, **spec})
    with writer.slice("run"):
        for _ in range(10):
            writer.second(report_runs.POOLED)
    told = result_samples.chapter(number, of=ALONE, endings={"commit-flush": "found"})
    store(writer.recorder, result_samples.run_result(chapter=told))
    return RunFile(writer.finish())


def test_a_run_stands_beside_the_one_before_of_the_same_load(tmp_path: Path) -> None:
    partitioned = {"workload": {"script": "tpcb-like", "init": {"partitions": "8"}}}
    plain = {"workload": {"script": "tpcb-like"}}
    runs = [
        alone(tmp_path / "s-1.db", 1, **plain),
        alone(tmp_path / "s-2.db", 2, **partitioned),
        alone(tmp_path / "s-3.db", 3, **plain, clients=[{"name": "web", "count": 3}]),
    ]
    _, first, second, third = make_page(runs).own
    assert not tables_of(first)
    (beside,) = tables_of(second).values()
    assert beside.head == ["", "chapter 1", "chapter 2", "ratio"]
    shown = {row[0]: row[-1] for row in beside.rows}
    assert shown["throughput, tps"] == "1.00x"
    assert shown["WAL per transaction"] == "1.00x"
    assert not tables_of(third), "another number of clients, which no chapter varies"
    assert beside.caption in render_story(runs)
