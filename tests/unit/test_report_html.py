"""The HTML report as text: self-contained, escaped, complete, and in order."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import price_runs
import pytest
import report_runs
import result_samples

from pgdyno.errors import SetupError
from pgdyno.record import RunFile
from pgdyno.report import write_html
from pgdyno.report.page.html import make_page, render
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.results import store

MAKERS = {
    "run": report_runs.plain_run,
    "investigate": report_runs.investigation_run,
    "compare": report_runs.comparison_run,
    "price": price_runs.price_run,
    "broken off": report_runs.empty_run,
}
HOSTILE = '</script><script>alert("@x $y")</script><img src=x onerror=alert(1)>'


class Outline(HTMLParser):
    """Tags, ids, headings, links and the text of a page, scripts left out."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.levels: list[int] = []
        self.tags: list[str] = []
        self.scripts = 0
        self.text = ""
        self._within: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if re.fullmatch(r"h[1-6]", tag):
            self.levels.append(int(tag[1]))
        self.scripts += tag == "script"
        if tag in ("script", "style", "title"):
            self._within.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._within and self._within[-1] == tag:
            self._within.pop()

    def handle_data(self, data: str) -> None:
        if not self._within:
            self.text += data


@pytest.fixture(scope="module", params=list(MAKERS))
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    make: Callable[[Path], Path] = MAKERS[request.param]
    return render(RunFile(make(tmp_path_factory.mktemp("page") / "run.db")))


def test_nothing_is_fetched(page: str) -> None:
    outline = Outline(page)
    assert [link for link in outline.links if not link.startswith(("#", "data:,"))] == []
    assert "default-src 'none'" in page
    assert "connect-src" not in page


def test_links_within_the_page_lead_somewhere_and_ids_are_unique(page: str) -> None:
    outline = Outline(page)
    assert len(set(outline.ids)) == len(outline.ids)
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)


def test_headings_are_in_order(page: str) -> None:
    levels = Outline(page).levels
    assert levels[0] == 1
    assert levels.count(1) == 1
    steps = pairwise(levels)
    assert all(following <= before + 1 for before, following in steps)


def test_every_chart_has_a_title_a_sentence_and_a_table(page: str) -> None:
    for figure in re.findall(r"<figure.*?</figure>", page, flags=re.DOTALL):
        assert re.search(r"<h3[^>]*>[^<]+</h3>", figure)
        assert re.search(r'<p class="description">[^<]+</p>', figure)
        assert re.search(r"<caption>[^<]+</caption>", figure)
        assert figure.count("<tr>") >= 2


def test_no_text_is_left_unfilled(page: str) -> None:
    text = Outline(page).text
    for unfilled in ("None", "nan", "NaN", "{{", "}}", "Undefined", "<built-in"):
        assert unfilled not in text


def test_the_investigation_tells_its_story(tmp_path: Path) -> None:
    path = report_runs.investigation_run(tmp_path / "run.db")
    text = Outline(render(RunFile(path))).text.replace("\N{NO-BREAK SPACE}", " ")
    for said in (
        "pool 2 → 16 gives 2.14x",
        "2,480 →",
        "5,310",
        "identical slices differ by [0.97, 1.03]; six pairs show effects of about 4.5 % or more",
        "1.64x [1.57, 1.70]",
        "rejected: no difference",
        "D1: may lose the last acknowledged commits; measured price: kill: lost at most 16 commits",
        "not drilled with the fault power: needs root",
        "three times wal_writer_delay (600 ms)",
        "ALTER SYSTEM SET synchronous_commit = 'off';",
        "taken back one at a time: pool 2 → 16 still earns 2.14x",
        "next limit: commit flush",
        "at least 20 %",
        "The application holds connections while it does other work.",
        "Checked and cleared",
        "Skipped: not checked",
        "all transactions are accounted for",
    ):
        assert said.lower() in text.lower(), said


def test_where_a_rate_is_held_the_page_speaks_of_p99(tmp_path: Path) -> None:
    writer = report_runs.Writer(tmp_path / "run.db", 60, command="compare", spec_text="")
    held = {"compared": "latency_p99"}
    free, change = report_runs.FREE, {"settings": {"synchronous_commit": "off"}}
    noise = report_runs.Tried("noise", "identical slices", free, free, columns=held)
    compared = report_runs.Tried(
        "compare", "synchronous_commit = off", free, report_runs.ASYNC, change,
        columns=held | {"verdict": "better", "predicted_ratio": 1.9},
    )  # fmt: skip
    report_runs.write_trial(writer, noise)
    report_runs.write_trial(writer, compared)
    run = RunFile(writer.finish())
    page = make_page(run)
    assert ("Throughput", "p99 0.62x [0.58, 0.67] at the held rate in 6 pairs") in page.prices[
        0
    ].terms
    assert page.headline[0].note == "held by the clients"
    charts = {chart.id: chart for chart in page.charts}
    assert charts["pairs"].title == "p99 ratio of each pair, changed to unchanged"
    assert charts["pairs"].description.startswith("6 of 6 pairs were faster with the change")
    assert "chain-p99" in charts
    assert "chain-tps" not in charts
    assert "dentical slices differ in p99 by [0.93, 1.08]" in Outline(render(run)).text.replace(
        "\N{NO-BREAK SPACE}", " "
    )


def test_a_single_run_prices_what_its_findings_propose(tmp_path: Path) -> None:
    page = make_page(RunFile(report_runs.plain_run(tmp_path / "run.db")))
    assert [card.title for card in page.prices] == ["pool 16"]
    assert ("Throughput", "predicted 1.9x; not measured") in page.prices[0].terms
    assert {chart.id for chart in page.client_charts} == {"tps-clients", "latency-clients"}


def test_charts_are_there_only_for_what_was_recorded(tmp_path: Path) -> None:
    writer = report_runs.Writer(tmp_path / "run.db", 5, command="run")
    assert make_page(RunFile(writer.recorder.path)).charts == []
    interval = {"started_ns": writer.ns, "ended_ns": writer.ns + 10**9, "tag": None}
    writer.recorder.add_interval(
        interval | {"scripts": [], "groups": [], "statements": [], "errors": [], "threads": []}
    )
    assert make_page(RunFile(writer.finish())).charts == []


def test_expected_errors_are_marked(tmp_path: Path) -> None:
    writer = report_runs.Writer(tmp_path / "run.db", 5, command="run")
    writer.second(report_runs.FREE)
    error = {"sqlstate": "42601", "expected": 1, "retried": 0, "count": 12, "script": "mixed",
             "statement": "selec 1", "client_group": "web", "message": "syntax error"}  # fmt: skip
    writer.recorder.add_rows("error", [error])
    table = make_page(RunFile(writer.finish())).errors
    assert table is not None
    assert list(table.rows[0]) == [
        "42601",
        "12",
        "expected",
        "syntax error",
        "group web, mixed",
        "selec 1",
    ]


def test_text_of_others_stays_text(tmp_path: Path) -> None:
    writer = report_runs.Writer(tmp_path / "run.db", 20, command="compare", name=HOSTILE)
    tried = report_runs.Tried(
        "compare", HOSTILE, report_runs.FREE, report_runs.ASYNC, {"settings": {"a": HOSTILE}}
    )
    report_runs.write_trial(writer, tried)
    writer.event("sql", HOSTILE, at_ms=1500, duration_ms=200)
    writer.recorder.add_finding(report_runs.finding("odd", "found", HOSTILE, rank=1))
    text = render(RunFile(writer.finish()))
    plain = render(RunFile(report_runs.comparison_run(tmp_path / "plain.db")))
    hostile, harmless = Outline(text), Outline(plain)
    assert hostile.scripts == harmless.scripts
    assert "img" not in hostile.tags
    assert HOSTILE not in text


def test_the_spec_is_there_to_run_again(tmp_path: Path) -> None:
    written = make_page(RunFile(report_runs.plain_run(tmp_path / "a.db")))
    assert tomllib.loads("\n".join(written.spec_lines))["clients"] == [
        {"name": "web", "count": 16, "pool": {"max": 2}}
    ]
    resolved = make_page(RunFile(report_runs.comparison_run(tmp_path / "b.db")))
    spec = tomllib.loads("\n".join(resolved.spec_lines))
    assert spec["clients"][0]["pool"]["max"] == 2


def test_a_spec_of_another_version_is_shown_all_the_same(tmp_path: Path) -> None:
    path = report_runs.empty_run(tmp_path / "run.db", spec_text="", spec={"of": "the future"})
    assert '"of": "the future"' in "\n".join(make_page(RunFile(path)).spec_lines)


def test_an_emulated_disk_is_named_on_top(tmp_path: Path) -> None:
    spec = report_runs.SPEC | {"disk": {"data": "plain", "wal": "slow:flush=5ms"}}
    page = make_page(RunFile(report_runs.plain_run(tmp_path / "run.db", spec=spec)))
    disk = "WAL on an emulated slow disk (a flush takes 5 ms)"
    assert any(f"Measured with {disk}: figures" in banner.text for banner in page.banners)
    assert disk in page.subtitle
    spec = report_runs.SPEC | {"disk": {"data": "plain", "wal": "tmpfs:1GB"}}
    page = make_page(RunFile(report_runs.plain_run(tmp_path / "run2.db", spec=spec)))
    assert not page.banners
    assert "WAL on tmpfs of 1GB" in page.subtitle


@pytest.mark.long
def test_a_long_run_is_drawn_with_few_points(tmp_path: Path) -> None:
    path = report_runs.long_run(tmp_path / "run.db", seconds=3100)  # just below 2 x 1600 points
    page = make_page(RunFile(path))
    for chart in page.charts:
        for renderer in chart.plot.renderers:
            columns = renderer.data_source.data.values()
            assert all(len(column) <= 1600 for column in columns), chart.id
    assert len(render(RunFile(path))) < 3_000_000


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    run = RunFile(report_runs.empty_run(tmp_path / "run.db"))
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="cannot write the report"):
        write_html(run, tmp_path / "file" / "report.html")
    assert write_html(run, tmp_path / "new" / "report.html").exists()


def test_how_full_the_disks_are(tmp_path: Path) -> None:
    page = make_page(RunFile(report_runs.plain_run(tmp_path / "run.db")))
    (space,) = (chart for chart in page.time_charts if chart.id == "space")
    assert [key.label for key in space.key] == ["data (ext4)", "WAL (tmpfs)"]
    assert "WAL (tmpfs): at most 78 % in use, 209 MB free" in space.description
    assert space.table.rows[0][3:] == ["60 %", "60 %"]


def test_a_chapter_says_where_luck_had_a_part(tmp_path: Path) -> None:
    chapter = result_samples.chapter(
        2, title="The WAL on a RAM disk", remark="964 against 568.", expected="worse",
        luck=["copy-back: pg_resetwal alone did as well"], as_expected=False,
    )  # fmt: skip
    writer = report_runs.Writer(tmp_path / "run.db", 2, command="compare")
    store(writer.recorder, result_samples.compare_result(chapter=chapter))
    run = RunFile(writer.finish())
    first, second, *_ = make_page(run).banners
    assert (first.head, first.bad) == ("Chapter 2: The WAL on a RAM disk.", True)
    assert first.text == "964 against 568. Expected: worse; it ended differently."
    assert (second.head, second.text) == (
        "Luck played a part.", "copy-back: pg_resetwal alone did as well."
    )  # fmt: skip
    lines = [line.text for line in summary_lines(run, 120)]
    assert "luck        copy-back: pg_resetwal alone did as well" in lines
