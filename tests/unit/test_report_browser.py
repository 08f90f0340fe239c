"""The HTML report in a real browser: drawn, quiet, within the screen, in both colour schemes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromium
import drill_runs
import price_runs
import pytest
import report_runs

from pgdyno.record import RunFile
from pgdyno.report import write_html

pytestmark = pytest.mark.skipif(chromium.installed() is None, reason="no Chromium is installed")

RUNS = {
    "run": report_runs.plain_run,
    "investigate": report_runs.investigation_run,
    "compare": report_runs.comparison_run,
    "price": price_runs.price_run,
    "broken-off": report_runs.empty_run,
    "drill": drill_runs.lossy_run,
}
VIEWS = {
    "desktop-light": {"width": 1280, "dark": False},
    "desktop-dark": {"width": 1280, "dark": True},
    "phone-light": {"width": 390, "dark": False, "phone": True},
    "phone-dark": {"width": 390, "dark": True, "phone": True},
}

# For each chart: its size, and what its canvases show. A pixel with colour belongs to a series;
# pixels without are rules and letters, of which the darkest and the lightest are told.
LOOK = """
(() => {
  const canvases = (node) => [...node.querySelectorAll("*")].flatMap((child) =>
    [...(child.tagName === "CANVAS" ? [child] : []),
     ...(child.shadowRoot ? canvases(child.shadowRoot) : [])]);
  return [...document.querySelectorAll("figure")].map((figure) => {
    const box = figure.querySelector(".plot").getBoundingClientRect();
    let coloured = 0, darkest = 255, lightest = 0;
    for (const canvas of canvases(figure)) {
      if (!canvas.width || !canvas.height) continue;
      const pixels = canvas.getContext("2d")
        .getImageData(0, 0, canvas.width, canvas.height).data;
      for (let i = 0; i < pixels.length; i += 4) {
        if (pixels[i + 3] < 200) continue;
        const [r, g, b] = pixels.slice(i, i + 3);
        if (Math.max(r, g, b) - Math.min(r, g, b) > 50) coloured += 1;
        else if (Math.max(r, g, b) - Math.min(r, g, b) < 25) {
          darkest = Math.min(darkest, r); lightest = Math.max(lightest, r);
        }
      }
    }
    return {id: figure.id, width: box.width, height: box.height, coloured, darkest, lightest};
  });
})()
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    return {
        name: write_html(RunFile(make(folder / f"{name}.db")), folder / f"{name}.html")
        for name, make in RUNS.items()
    }


@pytest.fixture(scope="module")
def tab() -> Iterator[chromium.Browser]:
    with chromium.browser() as browser:
        yield browser


LOOKS_MAX = 200
"""Looks at a page, each two frames after the last one, until its charts are painted."""


def complaint(chart: dict[str, Any], *, dark: bool) -> str:
    """What is wrong with the look of a chart; empty for a good one."""
    if chart["width"] <= 250 or chart["height"] <= 60:
        return f"a small chart: {chart}"
    if chart["coloured"] <= 30:
        return f"an empty chart: {chart}"
    if chart["lightest"] <= 150 if dark else chart["darkest"] >= 110:
        return f"no letters on the {'dark' if dark else 'light'} page: {chart}"
    return ""


def complaints(tab: chromium.Browser, *, dark: bool) -> list[str]:
    """What is wrong with the look of the charts once they are painted, in however many frames."""
    found = [""]
    for _ in range(LOOKS_MAX):
        found = [said for chart in tab.evaluate(LOOK) if (said := complaint(chart, dark=dark))]
        if not found:
            break
        tab.settle()
    # Of looking more than once, which no page does.
    tab.errors[:] = [said for said in tab.errors if "willReadFrequently" not in said]
    return found


ENDS = ("desktop-light", "phone-dark")


def _views_here(run: str, number: int) -> tuple[str, ...]:
    return ENDS if run == "investigate" else (ENDS[number % 2],)


DRAWN = [
    pytest.param(
        run,
        view,
        marks=() if view in _views_here(run, number) else pytest.mark.long,
    )
    for number, run in enumerate(RUNS)
    for view in VIEWS
]
"""All pages in all views; always that with most of all in two, and each other one in one."""


@pytest.mark.parametrize(("run", "view"), DRAWN)
def test_the_page_is_drawn(
    tab: chromium.Browser, reports: dict[str, Path], run: str, view: str
) -> None:
    tab.open(reports[run], **VIEWS[view])
    assert tab.errors == []
    assert tab.requests == [reports[run].resolve().as_uri()]
    assert tab.evaluate("document.documentElement.scrollWidth") <= VIEWS[view]["width"]
    assert bool(tab.evaluate(LOOK)) == (run != "broken-off")
    assert complaints(tab, dark=VIEWS[view]["dark"]) == []


def test_charts_follow_a_change_of_scheme(tab: chromium.Browser, reports: dict[str, Path]) -> None:
    tab.open(reports["investigate"], width=1280)
    assert complaints(tab, dark=False) == []
    tab.scheme(dark=True)
    assert complaints(tab, dark=True) == []
    assert tab.errors == []


def test_one_zoom_moves_all_time_charts(tab: chromium.Browser, reports: dict[str, Path]) -> None:
    tab.open(reports["investigate"], width=1280)
    ranges = """
        [...Bokeh.documents[0].all_models].filter(m => m.name === "time")
            .map(range => [range.start, range.end])
    """
    whole = tab.evaluate(ranges)
    assert len(whole) == 1, "all time charts share one range"
    tab.evaluate("document.querySelectorAll('.zoom button')[2].click()")
    zoomed = tab.evaluate(ranges)
    assert zoomed[0][0] > whole[0][0]
    assert zoomed[0][1] < whole[0][1]
    tab.evaluate("document.querySelectorAll('.zoom button')[0].click()")
    assert tab.evaluate(ranges) == whole
    assert tab.errors == []


def test_a_finger_on_a_chart_scrolls_the_page(
    tab: chromium.Browser, reports: dict[str, Path]
) -> None:
    tab.open(reports["run"], width=390, phone=True)
    taken = """
        (() => {
          const events = (node) => [...node.querySelectorAll("*")].flatMap((child) =>
            [...(child.classList.contains("bk-events") ? [child] : []),
             ...(child.shadowRoot ? events(child.shadowRoot) : [])]);
          return [...document.querySelectorAll(".plot")].flatMap(events)
            .map((layer) => getComputedStyle(layer).touchAction);
        })()
    """
    assert set(tab.evaluate(taken)) == {"auto"}


def test_lines_to_apply_can_be_copied(tab: chromium.Browser, reports: dict[str, Path]) -> None:
    tab.open(reports["investigate"], width=1280)
    boxes = tab.evaluate("document.querySelectorAll('.copyable').length")
    assert boxes == tab.evaluate("document.querySelectorAll('.copyable button').length")
    assert boxes >= 5


def test_a_drag_zooms_and_a_double_click_shows_all_again(
    tab: chromium.Browser, reports: dict[str, Path]
) -> None:
    tab.open(reports["run"], width=1280)
    # Two clicks are a double click however long a busy machine takes between them.
    gestures = "Bokeh.require('core/ui_gestures').UIGestures"
    for limit in ("press_threshold", "doubletap_threshold"):
        assert tab.evaluate(f"{gestures}.{limit}") > 0
        tab.evaluate(f"{gestures}.{limit} = 1e9")
    tab.evaluate("document.getElementById('chart-throughput').scrollIntoView()")
    tab.settle()
    span = "(r => r.end - r.start)(Bokeh.documents[0].get_model_by_name('time'))"
    whole = tab.evaluate(span)
    place = "document.querySelector('#chart-throughput .plot').getBoundingClientRect()"
    left, top = (tab.evaluate(f"{place}.{edge}") for edge in ("left", "top"))
    drag = [("mousePressed", 300), ("mouseMoved", 400), ("mouseMoved", 500), ("mouseReleased", 500)]
    for kind, x in drag:
        tab.mouse(kind, left + x, top + 100)
    tab.until(f"0 < {span} && {span} < {whole} / 2")
    for clicks in (1, 2):
        tab.mouse("mousePressed", left + 400, top + 100, clicks=clicks)
        tab.mouse("mouseReleased", left + 400, top + 100, clicks=clicks)
    tab.until(f"{span} === {whole!r}")
    assert tab.errors == []
