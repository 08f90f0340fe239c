"""Terminal summaries of run files, on one screen.

The lines of a command are imported when a run of that command is shown.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdyno import numbers
from pgdyno.facts.groups import group_accounts
from pgdyno.record import ErrorTotal, RunFile, error_lines
from pgdyno.record.latencies import ScriptKind
from pgdyno.report.summary import RunSummary
from pgdyno.report.terminal._lines import (
    LABEL_WIDTH,
    Line,
    command_lines,
    fields_beside,
    labelled,
    limited,
    print_lines,
    table_lines,
    term_lines,
    width_of,
    without_double_blanks,
    wrapped,
)
from pgdyno.report.terminal._load import (
    between_lines,
    budget_lines,
    course_lines,
    open_loop_lines,
    request_lines,
    server_statement_lines,
    session_lines,
    statement_lines,
)
from pgdyno.report.terminal.story import chapter_lines
from pgdyno.report.view import (
    Answer,
    BlankLine,
    Commands,
    Fields,
    InTerminal,
    Part,
    Shared,
    Terms,
    Text,
    View,
    sections_of,
    view_of,
)
from pgdyno.report.views.run import is_consistent, workload_sentences
from pgdyno.report.words import accounts, prose, sentences, vacuums
from pgdyno.report.words.findings import finding_name, finding_names
from pgdyno.report.words.tables import Table

if TYPE_CHECKING:
    from rich.console import Console

    from pgdyno.results import Result

NAMES_MAX = 8
"""Checks without a finding that are listed by name."""
FINDINGS_MAX = 4
HELPING_MAX = 6
ERRORS_MAX = 3
INCIDENTS_MAX = 4

TIMES: dict[ScriptKind, str] = {
    "response": "  response",
    "wait": "   wait",
    "client_lag": "     for a client",
    "pool_wait": "     for a pool",
    "connect": "     connecting",
    "service": "   service",
}
"""Labels of the response time and its parts."""


def stdout_console() -> Console | None:
    """Return a console on stdout, without colour if NO_COLOR or PG_COLOR ask for that; None if
    stdout is not a terminal, unless PG_COLOR or FORCE_COLOR ask for colour all the same.

    PG_COLOR has the values of PostgreSQL's own tools: always, auto or never. NO_COLOR takes
    precedence.
    """
    colour = os.environ.get("PG_COLOR", "auto")
    if not (sys.stdout.isatty() or colour == "always" or os.environ.get("FORCE_COLOR")):
        return None
    from rich.console import Console

    if os.environ.get("NO_COLOR") or colour == "never":
        return Console(color_system=None, highlight=False)
    return Console(force_terminal=True if colour == "always" else None, highlight=False)


def terminal_summary(run: RunFile, console: Console | None) -> None:
    """Print the summary of ``run``."""
    print_lines(summary_lines(run, width_of(console)), console)


def result_summary(command: str, result: Result, console: Console | None) -> None:
    """Print the summary of a command's result."""
    shown = view_of(command).of_result
    if shown is None:
        raise ValueError(f"a result of {command} is shown from its run file")
    lines = part_lines(shown(result), width_of(console))
    print_lines(without_double_blanks(lines), console)


def summary_lines(run: RunFile, width: int) -> list[Line]:
    """Return the lines of the summary, wrapped at ``width``, up to the limit for its command."""
    summary = RunSummary(run)
    view = summary.view
    lines = [
        *wrapped(
            " · ".join(sentences.setting_of_run(summary.info, summary.connected)),
            width,
            spare_rest=True,
        ),
        *(() if view.makes_incidents else _incident_lines(summary, width)),
        *_distrust_lines(summary, width),
        *labelled("behind", "; ".join(summary.behind), width, style="bold red"),
        Line(""),
        *chapter_lines(summary.chapter, width),
        *_body(view, summary, width),
        *_void_lines(run, width),
        *_warnings(summary, width),
    ]
    return limited(without_double_blanks(lines), view.lines_max)


def _body(view: View, summary: RunSummary, width: int) -> list[Line]:
    """Return the sections of the command, and the figures of a single run."""
    parts = [part for section in sections_of(summary) for part in section.parts]
    lines = part_lines(parts, width, summary)
    if view.is_run:
        return [*lines, Line(""), *_single_run(summary.run, summary, width)]
    if lines or view.opening is not None:
        return lines
    if view.measured is not None:
        table = view.measured(summary.run)
        lines = [*table_lines(table.head, table.rows, width), Line("")]
    return [*lines, *labelled("verdict", summary.verdict, width)]


def part_lines(parts: Iterable[Part], width: int, summary: RunSummary | None = None) -> list[Line]:
    """Return the parts that the terminal has, one below the other; ``summary`` for those that are
    of a run."""
    lines: list[Line] = []
    for given in parts:
        part = given.part if isinstance(given, InTerminal) else given
        if isinstance(part, Shared) and summary is not None:
            lines += _SHARED[part.lines](summary, width)
        else:
            lines += _part_lines(part, width)
    return lines


def _part_lines(part: Part, width: int) -> list[Line]:
    match part:
        case Table(head=head, rows=rows, spare=spare):
            return [*(replace(e, spare=spare) for e in table_lines(head, rows, width)), Line("")]
        case Text(text, style):
            return wrapped(text, width, style=style)
        case Answer(sentence):
            answer = prose.sentence(sentence).rstrip(".")
            return [Line(""), *wrapped(answer, width, style="bold"), Line("")]
        case Terms() as terms:
            return term_lines(terms, width)
        case Fields(first, rest, style, spare):
            return fields_beside(first, rest, width, indent=6, style=style, spare=spare)
        case Commands(texts, label) if label:
            return command_lines(label, texts, width)
        case Commands(texts, indent=indent):
            return [Line(f"{'':{indent}}{text}") for text in texts]
        case BlankLine():
            return [Line("")]
    return []


def _incident_lines(summary: RunSummary, width: int) -> list[Line]:
    """Return the incidents of the server under load."""
    lines = [
        line
        for each in summary.incidents[:INCIDENTS_MAX]
        for line in labelled(
            "incident",
            f"at {numbers.clock(each.at_s)} {each.sentence}",
            width,
            style="bold red",
        )
    ]
    more = len(summary.incidents) - INCIDENTS_MAX
    return lines + (labelled("", f"and {more} more", width) if more > 0 else [])


def _void_lines(run: RunFile, width: int) -> list[Line]:
    return labelled("void", sentences.void_words(run), width, style="yellow")


def _single_run(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    """Return the figures of a single run, then its findings."""
    ids = summary.before.slice_ids if summary.before else None
    lines = labelled("throughput", sentences.throughput_words(run, summary), width)
    lines += open_loop_lines(run, ids, width)
    if summary.single_run is not None:
        lines += labelled("steadiness", summary.single_run.steadiness, width)
        style = "" if is_consistent(summary.single_run) else "bold red"
        for label, text in workload_sentences(summary.single_run).items():
            lines += labelled(label, text, width, style=style)
    lines += course_lines(run, summary, width)
    lines += [Line(""), *_latency_lines(run, summary, width)]
    lines += budget_lines(summary, width)
    lines += [Line(""), *_group_lines(run, ids, width), *session_lines(run, ids, width)]
    lines += request_lines(run, ids, width)
    lines += [Line(""), *statement_lines(run, ids, width)]
    lines += server_statement_lines(summary.server_statements, width)
    if summary.single_run is not None:
        lines += labelled("costliest", summary.single_run.costliest.sentence, width)
    lines.append(Line(""))
    if run.ledger().intended:
        lines += labelled(
            "ledger", f"{accounts.ledger_identity(run.ledger())}, over the whole run", width
        )
    lines += _error_lines(run, width)
    if run.generator().threads:
        lines += labelled("generator", accounts.generator_words(run), width)
    lines += between_lines(run, ids, width)
    lines += labelled("governor", summary.governor, width)
    if summary.single_run and summary.single_run.vacuum:
        lines += term_lines(Terms(vacuums.sentences(summary.single_run.vacuum)), width)
    lines.append(Line(""))
    lines += _finding_lines(summary, width)
    return [*lines, *labelled("run file", str(run.path), width)]


def _latency_lines(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    """Return a table of percentiles in milliseconds."""
    if summary.before is None:
        return []
    head = ["latency, ms", *accounts.PERCENTILE_NAMES, "max", "samples"]
    rows = []
    histograms = accounts.shown_times(run, summary.before.slice_ids)
    for kind, histogram in histograms.items():
        if histogram.count:
            name = TIMES[kind]
            figures = [accounts.percentile_ms(histogram, p) for p in accounts.PERCENTILES]
            largest = numbers.ms_figure(histogram.max / 1e6)
            rows.append([name, *figures, largest, numbers.count(histogram.count)])
    return table_lines(head, rows, width)


def _group_lines(run: RunFile, ids: list[int] | None, width: int) -> list[Line]:
    """Return a row for each client group if there are several, and the times of connecting."""
    lines: list[Line] = []
    if table := accounts.groups_table(run, ids):
        head = ["groups", *table.head[1:]]
        lines += table_lines(head, [[f"  {row[0]}", *row[1:]] for row in table.rows], width)
    return [*lines, Line(""), *_connect_lines(run, ids, width)]


def _connect_lines(run: RunFile, ids: list[int] | None, width: int) -> list[Line]:
    """Return the median time of each phase of connecting, of groups that kept connecting."""
    rows = []
    for group in group_accounts(run, ids):
        if not group.connects.is_notable:
            continue
        by_phase = {
            phase: run.histogram(phase, ids, group=group.name) for phase in accounts.CONNECT_PHASES
        }
        total = by_phase["total"]
        rows.append(
            [
                f"  {group.name}",
                numbers.count(group.connects.made),
                numbers.count(group.connects.failed),
                *(numbers.ms_figure(h.percentile(50) / 1e6) if h.count else ""
                  for h in by_phase.values()),
                accounts.percentile_ms(total, 99),
                numbers.ms_figure(total.max / 1e6) if total.count else "",
            ]
        )  # fmt: skip
    phases = [*accounts.CONNECT_PHASES.values()][:-1]
    head = ["connecting, ms", "made", "failed", *(f"{name} p50" for name in phases), "p50", "p99",
            "max"]  # fmt: skip
    return table_lines(head, rows, width)


def _error_lines(run: RunFile, width: int) -> list[Line]:
    errors = run.errors()
    if not errors:
        return labelled("errors", "none", width)
    shown = [
        f"{numbers.count(e.count)} × {accounts.sqlstate_words(e)}" for e in errors[:ERRORS_MAX]
    ]
    if len(errors) > ERRORS_MAX:
        more = len(errors) - ERRORS_MAX
        shown.append(f"and {more} more {'kind' if more == 1 else 'kinds'}")
    lines = labelled("errors", "; ".join(shown), width)
    for error in errors[:ERRORS_MAX]:
        if not (error.expected or error.retried):
            lines += _error_detail_lines(error, width, without_message=len(errors) == 1)
    return lines


def _error_detail_lines(error: ErrorTotal, width: int, *, without_message: bool) -> list[Line]:
    """Return the details of an error; ``without_message`` if its message is in the line above."""
    lines = []
    for line in error_lines(error)[without_message:]:
        text = f"{'':{LABEL_WIDTH}}{line}"
        if len(text) <= width:
            lines.append(Line(text, spare=True))  # not wrapped: a caret points into the line above
        else:
            lines += wrapped(text, width, indent=LABEL_WIDTH + 4, spare=True)
    return lines


def _finding_lines(summary: RunSummary, width: int) -> list[Line]:
    """Return the limit or the verdict, other findings, and what was cleared and skipped."""
    from pgdyno.report.words.repeat import compare_lines

    limit = summary.limit
    lines = [] if limit else labelled("verdict", summary.verdict, width)
    for finding in summary.limits[:FINDINGS_MAX]:
        text = f"{finding_name(finding.id)}: {finding.sentence}"
        label, style = ("limit", "yellow") if finding is limit else ("found", "")
        lines += labelled(label, text, width, style=style)
        lines += labelled("advice", finding.advice, width, spare=finding is not limit)
        lines += _command_lines("to remedy", finding.commands)
        lines += _command_lines("to prove it", compare_lines(summary.run, finding))
    helping = sentences.might_help(summary.limits, summary)
    lines += labelled("might help", "; ".join(helping[:HELPING_MAX]), width)
    minor = [f"{finding_name(f.id)}: {f.sentence}" for f in summary.minor[:FINDINGS_MAX]]
    lines += labelled("minor", "; ".join(minor), width)
    for status in ("cleared", "skipped"):
        names = finding_names(summary.findings, status)
        lines += labelled(status, _names_words(names), width, spare=status == "skipped")
    return lines


def _command_lines(label: str, commands: Sequence[str]) -> list[Line]:
    """Return commands that a user may run, each on a line."""
    return [
        Line(f"{'' if number else label:<{LABEL_WIDTH}}{command}", bold_to=len(label))
        for number, command in enumerate(commands)
    ]


def _names_words(names: Sequence[str]) -> str:
    """Return a few names, or the number of many."""
    if len(names) <= NAMES_MAX:
        return ", ".join(names)
    return f"{len(names)} checks, which pgdyno report and --format json list"


def _warnings(summary: RunSummary, width: int) -> list[Line]:
    """Return notes on emulated disks and on the end of the run."""
    lines = []
    if disk := summary.emulated:
        text = f"{disk}: {sentences.NOT_A_REAL_DISK}"
        lines += labelled("emulated", text, width, style="yellow")
    if summary.info.status not in ("done", "running", "broken"):
        detail = summary.info.status_detail
        status = f"{summary.info.status}{f': {detail}' if detail else ''}"
        lines += labelled("status", status, width, style="red")
    return [Line(""), *lines] if lines else []


def _distrust_lines(summary: RunSummary, width: int) -> list[Line]:
    """Return why the figures cannot be trusted, or that this is not known."""
    if summary.result_unreadable:
        return labelled("note", sentences.RESULT_UNREADABLE, width, style="bold red")
    return labelled("not trusted", "; ".join(summary.distrust), width, style="bold red")


_SHARED: dict[str, Callable[[RunSummary, int], list[Line]]] = {
    "findings": _finding_lines,
    "budget": budget_lines,
}
"""Lines of single runs that others have as well."""
