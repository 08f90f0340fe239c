"""Terminal output of ``pgdyno diff``: differences, the figures of both runs, and cautions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from pgdyno import numbers
from pgdyno.record import samples_needed
from pgdyno.report import session_waits
from pgdyno.report.terminal._lines import (
    Line,
    labelled,
    print_lines,
    table_lines,
    width_of,
    wrapped,
)
from pgdyno.report.words import plans
from pgdyno.report.words.prose import cut
from pgdyno.report.words.side_by_side import beside_rows, speed_rows, work_rows
from pgdyno.results import diff as results
from pgdyno.results.diff import DiffResult, DrillFigures, LoadFigures, Pair

if TYPE_CHECKING:
    from rich.console import Console

    from pgdyno.results.plans import ComparedPlans

VALUE_WIDTH = 34
NAME_WIDTH = 46
STATEMENTS_MAX = 8
TEXT_LINES_MAX = 5
"""Lines of two texts that differ and are shown."""
_ALIGNED_MAX = 2000
WAITS_MAX = 8
_HEAD = ("A", "B", "B / A")


def print_diff(result: DiffResult, console: Console | None) -> None:
    """Print the result of :func:`pgdyno.report.words.diff.diff`."""
    print_lines(diff_lines(result, width_of(console)), console)


def diff_lines(result: DiffResult, width: int) -> list[Line]:
    """Return all lines, with a blank line between the parts."""
    blocks = (
        [*_side_lines("A", result.a, width), *_side_lines("B", result.b, width)],
        _differing_lines(result.differs, width),
        *_figure_blocks(result.figures, width),
        [
            line
            for number, caution in enumerate(result.cautions)
            for line in labelled("" if number else "caution", caution, width, style="yellow")
        ],
    )
    lines: list[Line] = []
    for block in blocks:
        if block:
            lines += [*([Line("")] if lines else []), *block]
    return lines


def _side_lines(name: str, side: results.Side, width: int) -> list[Line]:
    parts = [
        side.run_file,
        f"{side.command} of {side.name}",
        side.started,
        *([f"pgdyno {side.pgdyno_version}"] if side.pgdyno_version else []),
        f"{side.over}, {numbers.duration(side.seconds)}",
    ]
    return labelled(name, " · ".join(parts), width, label_width=4)


def _differing_lines(differs: results.Differs, width: int) -> list[Line]:
    """Return a row for each differing key, after the name of its part; parts without differences
    are listed in one line."""
    parts: dict[str, tuple[results.Different, ...]] = dict(differs)
    rows = [
        row
        for part, found in parts.items()
        for each in found
        for row in _rows(f"{part} {each.key}", each.a, each.b)
    ]
    alike = [part for part, found in parts.items() if not found]
    lines = _left_table(("differs", "A", "B"), rows) if rows else []
    return lines + (labelled("same", numbers.listed(alike, most=None), width) if alike else [])


def _left_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Line]:
    """Return a table of left-aligned columns."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = []
    for row in (head, *rows):
        padded = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        lines.append(Line("  ".join(padded).rstrip(), bold_to=len(head[0]) if row is head else 0))
    return lines


def _rows(name: str, a: Any, b: Any) -> list[list[str]]:
    """Return a row for two values, or one for each line in which two texts differ."""
    texts = [each for each in (a, b) if isinstance(each, str)]
    if len(texts) < 2 or not any("\n" in each for each in texts):
        return [[name, _shown(a), _shown(b)]]
    differing = [*_differing(*(each.splitlines() for each in texts))]
    rows = [[f"{name}, line {number}", *_apart(*lines)] for number, *lines in differing]
    left = len(rows) - TEXT_LINES_MAX
    more = [[f"{name}, more lines", f"{left}", ""]] if left > 0 else []
    return rows[:TEXT_LINES_MAX] + more or [[name, "other line ends", ""]]


def _differing(a: list[str], b: list[str]) -> Iterator[tuple[int, str | None, str | None]]:
    """Yield line number and both lines; None where a side has none."""
    blocks: Sequence[tuple[str, int, int, int, int]] = [("replace", 0, len(a), 0, len(b))]
    if len(a) + len(b) <= _ALIGNED_MAX:  # To align more would take long.
        blocks = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    for kind, *(a_from, a_to, b_from, b_to) in blocks:
        lines = zip_longest(a[a_from:a_to], b[b_from:b_to])
        for number, (mine, theirs) in enumerate(lines, (a_from if a_to > a_from else b_from) + 1):
            if kind != "equal" and mine != theirs:
                yield number, mine, theirs


def _apart(a: str | None, b: str | None) -> list[str]:
    """Return two lines, from shortly before the place at which they differ if that is far."""
    if a is None or b is None:
        return [_shown(a), _shown(b)]
    alike = next(n for n, each in enumerate(zip_longest(a, b)) if each[0] != each[1])
    if max(len(a), len(b)) <= VALUE_WIDTH or alike < VALUE_WIDTH // 2:
        return [_shown(a), _shown(b)]
    return [cut(f"…{each[alike - VALUE_WIDTH // 4 :]}", VALUE_WIDTH) for each in (a, b)]


def _shown(value: Any) -> str:
    """Return a value on one line; for text of several lines, the number of lines."""
    if value is None:
        return numbers.ABSENT
    if isinstance(value, str) and "\n" in value:
        return f"a text of {value.strip().count(chr(10)) + 1} lines"
    text = value if isinstance(value, str) else json.dumps(value)
    return cut(text, VALUE_WIDTH)


def _figure_blocks(figures: LoadFigures | DrillFigures, width: int) -> Iterable[list[Line]]:
    if isinstance(figures, DrillFigures):
        rows = [_count_row(name.replace("_", " "), both) for name, both in figures.drill.items()]
        yield table_lines((f"drill, {_faults(figures.fault)}", *_HEAD), rows, width)
        return
    rows = speed_rows(figures)
    yield [*table_lines(("", *_HEAD), rows, width), *_absent_lines(rows, width)]
    yield table_lines(("statements, mean ms", *_HEAD), _statement_rows(figures), width)
    yield _plan_lines(figures.plans, width)
    yield table_lines(("sessions by wait, mean", *_HEAD), _wait_rows(figures), width)
    yield table_lines(("work of the server", *_HEAD), _indented(work_rows(figures.work)), width)
    beside = _indented(beside_rows(figures.beside))
    yield table_lines(("statements beside the load, ms", *_HEAD), beside, width)
    yield _failure_lines(figures.failures, width)


def _indented(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[f"  {name}", *figures] for name, *figures in rows]


def _absent_lines(rows: Sequence[Sequence[str]], width: int) -> list[Line]:
    """Return why a percentile has no figure, if one has none."""
    if not any(numbers.ABSENT in row for row in rows):
        return []
    median, tail = (numbers.count(samples_needed(percentile)) for percentile in (50, 99))
    why = f"{numbers.ABSENT} too few transactions: p50 needs {median} of them, p99 {tail}"
    return wrapped(why, width, indent=2)


def _faults(fault: results.Faults) -> str:
    return fault.a if fault.a == fault.b else f"{fault.a} and {fault.b}"


def _statement_rows(figures: LoadFigures) -> list[list[str]]:
    return [
        [
            f"  {cut(each.statement, NAME_WIDTH)}",
            numbers.ms_figure(each.mean_ms.a),
            numbers.ms_figure(each.mean_ms.b),
            numbers.ratio(each.mean_ms.ratio),
        ]
        for each in figures.statements[:STATEMENTS_MAX]
    ]


def _plan_lines(compared: ComparedPlans | None, width: int) -> list[Line]:
    """Return the statements whose plan differs, with both forms."""
    terms = plans.replanned_terms(compared, "A", "B")
    return [line for label, text in terms for line in labelled(label, text, width)]


def _wait_rows(figures: LoadFigures) -> list[list[str]]:
    return [
        [
            f"  {cut(session_waits.label(each.event), NAME_WIDTH)}",
            numbers.significant(each.a, 2),
            numbers.significant(each.b, 2),
            numbers.ratio(each.ratio),
        ]
        for each in figures.waits[:WAITS_MAX]
    ]


def _failure_lines(failures: results.FailurePairs, width: int) -> list[Line]:
    pairs = {
        "failed": failures.failed,
        "retried": failures.retried,
        "skipped": failures.skipped,
    }
    rows = [_count_row(name, both) for name, both in pairs.items() if both.a or both.b]
    if not rows:
        return labelled("failures", "none in either run", width)
    share = failures.share
    if share.a or share.b:
        of_all = [numbers.percent(each) for each in (share.a, share.b)]
        rows.insert(1, ["  failed, share of all", *of_all, ""])
    rows += [
        [f"    {each.sqlstate}", numbers.count(each.a), numbers.count(each.b), ""]
        for each in failures.errors
    ]
    return table_lines(("failures", *_HEAD), rows, width)


def _count_row(name: str, both: Pair) -> list[str]:
    return [f"  {name}", _number(both.a), _number(both.b), numbers.ratio(both.ratio)]


def _number(value: float | None) -> str:
    """Return a whole number with commas, any other with three digits."""
    whole = value is not None and float(value).is_integer()
    return numbers.count(value) if whole else numbers.significant(value)
