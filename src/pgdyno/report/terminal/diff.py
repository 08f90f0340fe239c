"""``pgdyno diff`` in the terminal: what differs, both figures, and what they do not prove."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from pgdyno.report import wait_events
from pgdyno.report.terminal._lines import Line, labelled, table_lines
from pgdyno.report.words import numbers

PLAIN_WIDTH = 120
VALUE_WIDTH = 34
NAME_WIDTH = 46
STATEMENTS_MAX = 8
WAITS_MAX = 8
PERCENTILES = ("mean", "p50", "p95", "p99", "p99.9", "max")
WAIT_SHARE_MIN = 0.02
"""Of the mean response time; a wait below that needs no rows of its own."""
_HEAD = ("A", "B", "B / A")


def print_diff(result: Mapping[str, Any], console: Console) -> None:
    """Prints the JSON result of :func:`pgdyno.report.words.diff.diff`."""
    width = console.width if console.is_terminal else PLAIN_WIDTH
    for line in diff_lines(result, width):
        text = Text(line.text, style=line.style, no_wrap=True, overflow="ignore")
        text.stylize("bold", 0, line.bold_to)
        console.print(text, soft_wrap=True)


def diff_lines(result: Mapping[str, Any], width: int) -> list[Line]:
    """All lines, a blank one between the parts."""
    blocks = (
        [line for name in "ab" for line in _side_lines(name, result[name], width)],
        _differing_lines(result["differs"], width),
        *_figure_blocks(result["figures"], width),
        [
            line
            for number, said in enumerate(result["cautions"])
            for line in labelled("" if number else "but", said, width, style="yellow")
        ],
    )
    lines: list[Line] = []
    for block in blocks:
        if block:
            lines += [*([Line("")] if lines else []), *block]
    return lines


def _side_lines(name: str, side: Mapping[str, Any], width: int) -> list[Line]:
    parts = [
        side["run_file"],
        f"{side['command']} of {side['name']}",
        side["started"],
        *([f"pgdyno {side['pgdyno_version']}"] if side["pgdyno_version"] else []),
        f"{side['over']}, {numbers.duration(side['seconds'] * 1000)}",
    ]
    return labelled(name.upper(), " · ".join(parts), width, label_width=4)


def _differing_lines(differs: Mapping[str, Sequence[Mapping[str, Any]]], width: int) -> list[Line]:
    """A row for each key, under its part; the parts that are alike in one line."""
    rows = [
        [f"{part} {each['key']}", _shown(each["a"]), _shown(each["b"])]
        for part, found in differs.items()
        for each in found
    ]
    alike = [part for part, found in differs.items() if not found]
    lines = _left_table(("differs", "A", "B"), rows) if rows else []
    return lines + (labelled("alike", numbers.listed(alike), width) if alike else [])


def _left_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Line]:
    """A table of words, its columns to the left."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = []
    for row in (head, *rows):
        padded = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        lines.append(Line("  ".join(padded).rstrip(), bold_to=len(head[0]) if row is head else 0))
    return lines


def _shown(value: Any) -> str:
    """A value on one line; of a script's text, how long it is."""
    if value is None:
        return numbers.ABSENT
    if isinstance(value, str) and "\n" in value:
        lines = value.strip().count("\n") + 1
        return f"another text, {lines} line{'s' if lines > 1 else ''}"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= VALUE_WIDTH else f"{text[: VALUE_WIDTH - 1]}…"


def _figure_blocks(figures: Mapping[str, Any], width: int) -> Iterable[list[Line]]:
    if "drill" in figures:
        rows = [_count_row(name.replace("_", " "), both) for name, both in figures["drill"].items()]
        yield table_lines((f"drill, {_faults(figures['fault'])}", *_HEAD), rows, width)
        return
    tps = figures["throughput_tps"]
    rows = [["throughput, tps", numbers.tps(tps["a"]), numbers.tps(tps["b"]), _ratio(tps)]]
    for part in _parts_worth_telling(figures["latency_ms"]):
        rows += _latency_rows(part, figures["latency_ms"][part])
    yield table_lines(("", *_HEAD), rows, width)
    yield table_lines(("statements, mean ms", *_HEAD), _statement_rows(figures), width)
    yield table_lines(("active sessions, waits", *_HEAD), _wait_rows(figures), width)
    yield _failure_lines(figures["failures"], width)


def _faults(fault: Mapping[str, str]) -> str:
    return fault["a"] if fault["a"] == fault["b"] else f"{fault['a']} and {fault['b']}"


def _parts_worth_telling(latency: Mapping[str, Any]) -> Sequence[str]:
    """Response, and its parts where either run waited for anything but the server."""
    waited = (
        (latency["wait"].get("mean", {}).get(side) or 0)
        > WAIT_SHARE_MIN * (latency["response"].get("mean", {}).get(side) or 0)
        for side in "ab"
    )
    return ("response", "wait", "service") if any(waited) else ("response",)


def _latency_rows(part: str, percentiles: Mapping[str, Any]) -> list[list[str]]:
    """The percentiles of one part that either run can tell."""
    return [
        [f"{part} {each}, ms", *(numbers.ms_figure(both[side]) for side in "ab"), _ratio(both)]
        for each in PERCENTILES
        if (both := percentiles.get(each)) and (both["a"], both["b"]) != (None, None)
    ]


def _statement_rows(figures: Mapping[str, Any]) -> list[list[str]]:
    return [
        [
            f"  {_cut(each['statement'])}",
            *(numbers.ms_figure(each["mean_ms"][side]) for side in "ab"),
            _ratio(each["mean_ms"]),
        ]
        for each in figures["statements"][:STATEMENTS_MAX]
    ]


def _wait_rows(figures: Mapping[str, Any]) -> list[list[str]]:
    return [
        [
            f"  {_cut(wait_events.label(each['event']))}",
            *(numbers.significant(each[side], 2) for side in "ab"),
            _ratio(each),
        ]
        for each in figures["waits"][:WAITS_MAX]
    ]


def _failure_lines(failures: Mapping[str, Any], width: int) -> list[Line]:
    rows = [
        _count_row(name, failures[name]) for name in ("failed", "retried", "skipped")
        if failures[name]["a"] or failures[name]["b"]
    ]  # fmt: skip
    if not rows:
        return labelled("failures", "none in either", width)
    share = failures["share"]
    rows.insert(1, ["failed, share", *(numbers.percent(share[side]) for side in "ab"), ""])
    rows += [
        [f"  {each['sqlstate']}", numbers.count(each["a"]), numbers.count(each["b"]), ""]
        for each in failures["errors"]
    ]
    return table_lines(("failures", *_HEAD), rows, width)


def _count_row(name: str, both: Mapping[str, Any]) -> list[str]:
    cells = [_whole_or_not(both[side]) for side in "ab"]
    return [f"  {name}", *cells, _ratio(both)]


def _whole_or_not(value: float | None) -> str:
    whole = value is not None and float(value).is_integer()
    return numbers.count(value) if whole else numbers.significant(value)


def _cut(text: str) -> str:
    whole = " ".join(text.split())
    return whole if len(whole) <= NAME_WIDTH else f"{whole[: NAME_WIDTH - 1]}…"


def _ratio(both: Mapping[str, Any]) -> str:
    return numbers.times(both["ratio"]) if both["ratio"] else ""
