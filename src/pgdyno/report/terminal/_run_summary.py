"""Terminal summaries of run files, on one screen.

The lines of a command are imported when a run of that command is shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from pgdyno import numbers
from pgdyno.facts.groups import group_accounts
from pgdyno.record import ErrorTotal, RunFile, error_lines
from pgdyno.record.latencies import ScriptKind
from pgdyno.report.attempts import Attempt
from pgdyno.report.summary import RunSummary, Step
from pgdyno.report.terminal._lines import (
    GAP,
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
from pgdyno.report.terminal._own_sections import measured_lines, own_lines
from pgdyno.report.terminal._proving import proving_lines, proving_lines_of
from pgdyno.report.terminal.story import chapter_lines
from pgdyno.report.view import Terms, views
from pgdyno.report.words import accounts, entities, own_sql, sentences, vacuums
from pgdyno.report.words.findings import (
    finding_name,
    finding_names,
    next_limit_sentence,
    verdict_words,
)

if TYPE_CHECKING:
    from pgdyno.results.check import CheckResult

LINES_MAX = 39
RUN_LINES_MAX = 54
"""Limit for a single run, which also has tables of groups and statements."""
PRICE_LINES_MAX = 200
"""Limit for a price list, which has a row and a sentence for each candidate."""
TITLE_WIDTH = 30
NAMES_MAX = 8
"""Checks without a finding that are listed by name."""
FINDINGS_MAX = 4
ERRORS_MAX = 3
INCIDENTS_MAX = 4

STYLES = {
    "kept": "green",
    "still earns": "green",
    "better": "green",
    "offered": "yellow",
    "inconclusive": "yellow",
    "mixed": "red",
    "not comparable": "red",
    "taken back": "red",
    "worse": "red",
}

TIMES: dict[ScriptKind, str] = {
    "response": "  response",
    "wait": "   wait",
    "client_lag": "     for a client",
    "pool_wait": "     for a pool",
    "connect": "     connecting",
    "service": "   service",
}
"""Labels of the response time and its parts."""


def stdout_console() -> Console:
    """Return a console on stdout, without colour if NO_COLOR or PG_COLOR ask for that or stdout is
    not a terminal.

    PG_COLOR has the values of PostgreSQL's own tools: always, auto or never. NO_COLOR takes
    precedence.
    """
    colour = os.environ.get("PG_COLOR", "auto")
    if os.environ.get("NO_COLOR") or colour == "never":
        return Console(color_system=None, highlight=False)
    return Console(force_terminal=True if colour == "always" else None, highlight=False)


def terminal_summary(run: RunFile, console: Console) -> None:
    """Print the summary of ``run``."""
    print_lines(summary_lines(run, width_of(console)), console)


def check_summary(result: CheckResult, console: Console) -> None:
    """Print the summary of a check."""
    from pgdyno.report.terminal._check import check_lines

    print_lines(check_lines(result, width_of(console)), console)


def summary_lines(run: RunFile, width: int) -> list[Line]:
    """Return the lines of the summary, wrapped at ``width``, up to the limit for its command."""
    summary = RunSummary(run)
    body, lines_max = _body_of(summary.info.command)
    lines = [
        *wrapped(
            " · ".join(sentences.setting_of_run(summary.info, summary.connected)),
            width,
            spare_rest=True,
        ),
        *(_incident_lines(summary, width) if summary.info.command != "drill" else ()),
        *_distrust_lines(summary, width),
        *labelled("behind", "; ".join(summary.behind), width, style="bold red"),
        Line(""),
        *chapter_lines(summary.chapter, width),
        *body(run, summary, width),
        *_warnings(summary, width),
    ]
    return limited(without_double_blanks(lines), lines_max)


def _incident_lines(summary: RunSummary, width: int) -> list[Line]:
    """Return the incidents of the server under load."""
    lines = [
        line
        for each in summary.incidents[:INCIDENTS_MAX]
        for line in labelled(
            "incident",
            f"at {numbers.clock(each.at_ms / 1000)} {each.sentence}",
            width,
            style="bold red",
        )
    ]
    more = len(summary.incidents) - INCIDENTS_MAX
    return lines + (labelled("", f"and {more} more", width) if more > 0 else [])


def _check(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    from pgdyno.report.terminal._check import check_lines

    return check_lines(summary.check, width) if summary.check else []


def _drill(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    from pgdyno.report.terminal._drill import drill_lines

    return drill_lines(run, width)


def _investigation(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    """Return the steps of an investigation and its result."""
    lines = labelled("noise", sentences.noise_sentence(summary), width, label_width=8)
    lines += [Line("")] if lines else []
    for step in summary.steps:
        lines += _step_lines(run, step, summary, width)
    lines += wrapped(sentences.rechecks_sentence(summary), width)
    lines += wrapped(next_limit_sentence(summary), width)
    if not summary.steps:
        lines += _finding_lines(run, summary, width)
    lines += _apply_lines(summary, width)
    lines.append(Line(""))
    lines += _change_line(summary, width)
    lines += budget_lines(summary, width)
    if summary.capacity is not None:
        lines += [Line(""), *labelled("capacity", summary.capacity.sentence, width)]
        lines += labelled("", verdict_words(summary.capacity.limit), width)
    return [*lines, *_void_lines(run, width)]


def _void_lines(run: RunFile, width: int) -> list[Line]:
    return labelled("void", sentences.void_words(run), width, style="yellow")


def _step_lines(run: RunFile, step: Step, summary: RunSummary, width: int) -> list[Line]:
    name = finding_name(step.finding) or "further changes"
    head = f"{step.number}  {name}"
    helped = any(a.was_measured and a.outcome != "rejected" for a in step.attempts)
    indent = max(24, len(head) + 2)
    lines = labelled(head, step.sentence or " ", width, label_width=indent, spare=not helped)
    for attempt in step.attempts:
        lines += _attempt_lines(attempt, summary, width)
        lines += proving_lines_of(run, attempt)
    return lines


def _attempt_lines(attempt: Attempt, summary: RunSummary, width: int) -> list[Line]:
    title = (
        attempt.title if attempt.loses_nothing else f"{attempt.title}  {attempt.durability_class}"
    )
    parts = []
    if predicted := sentences.predicted_words(attempt):
        parts.append(f"predicted {predicted}")
    if measured := sentences.measured_words(attempt):
        parts.append(f"measured {measured}")
    if attempt.gains and not attempt.rate_held and attempt.latency_p99:
        parts.append(f"p99 {numbers.change_percent(attempt.latency_p99.ratio)}")
    parts += [sentences.decision_words(attempt), sentences.proof_words(attempt)]
    parts.append(sentences.set_by_words(attempt))
    if attempt.gains:
        parts.append(sentences.postponed_words(attempt))
        parts.append(sentences.price_words(attempt, summary))
        parts.append(sentences.shorter_words(attempt))
    return fields_beside(
        f"{GAP}{title:<{TITLE_WIDTH}}", [part for part in parts if part], width, indent=6,
        style=STYLES.get(attempt.outcome, ""),
        spare=attempt.outcome == "rejected" or not attempt.was_measured,
    )  # fmt: skip


def _change_line(summary: RunSummary, width: int) -> list[Line]:
    """Return throughput and p99 before and after in one line."""
    before, after = summary.before, summary.after
    if before is None:
        return []
    taken = sentences.time_taken(summary.info)
    if after is None:
        parts = [f"{numbers.tps(before.throughput_tps)} tps before", summary.gain_words]
    elif summary.changed:
        parts = [
            f"{numbers.tps(before.throughput_tps)} → {numbers.tps(after.throughput_tps)} tps"
            f" ({summary.gain_words})",
            f"p99 {numbers.from_to_ms(before.latency_p99_ms, after.latency_p99_ms)}"
            f" ({summary.p99_gain_words})",
        ]
    else:
        parts = [
            f"{numbers.tps(after.throughput_tps)} tps",
            f"p99 {numbers.ms(after.latency_p99_ms)}",
            *([after.source] if after.source else []),
        ]
    text = " · ".join([*parts, *([taken] if taken else [])])
    return [Line(line.text, "bold") for line in wrapped(text, width)]


def _apply_lines(summary: RunSummary, width: int) -> list[Line]:
    """Return the commands that apply the kept changes permanently, and those that undo them. The
    trials themselves restored everything."""
    kept = summary.kept
    lines = []
    for label, rows in (
        ("to apply", kept.lines_to_apply()),
        ("to undo", kept.lines_to_undo(summary.before_all)),
    ):
        lines += command_lines(label, rows, width)
    return lines


def _comparison(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    """Return the change, its effect and the verdict of a comparison."""
    from pgdyno.report.terminal._one_command import compared_lines

    attempt = summary.comparison
    lines = labelled("noise", sentences.noise_sentence(summary), width)
    if attempt is None:
        return lines
    change = [attempt.title, sentences.set_by_words(attempt)]
    lines += labelled("change", GAP.join(part for part in change if part), width)
    lines += labelled("durability", sentences.assessed_words(attempt), width)
    lines += labelled("price", attempt.assessment.price, width)
    lines += labelled("took", own_sql.took_words(summary.result), width)
    for label, words in sentences.level_words(attempt).items():
        lines += labelled(label, GAP.join(words), width)
    lines += labelled("", sentences.postponed_words(attempt), width)
    lines += labelled("failures", sentences.failure_words(run, attempt), width)
    lines.append(Line(""))
    style = f"bold {STYLES.get(attempt.outcome, '')}".strip()
    lines += wrapped(sentences.comparison_sentence(attempt), width, style=style)
    return [*lines, *compared_lines(summary, width), *_void_lines(run, width)]


def _own(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    """Return the sections that one command has alone."""
    view = views()[summary.info.command]
    lines = own_lines(view, summary, width)
    if view.is_run:
        return [*lines, Line(""), *_single_run(run, summary, width)]
    return [*lines, *_void_lines(run, width)] if lines else measured_lines(view, summary, width)


def _price_list(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    from pgdyno.report.terminal._one_command import price_lines

    return [*price_lines(run, summary, width), *_void_lines(run, width)]


def _single_run(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    """Return the figures of a single run, then its findings."""
    ids = summary.before.slice_ids if summary.before else None
    lines = labelled("throughput", sentences.throughput_words(run, summary), width)
    lines += open_loop_lines(run, ids, width)
    if summary.single_run is not None:
        lines += labelled("steadiness", summary.single_run.steadiness, width)
        if resolved := summary.single_run.entity_resolution:
            for label, text in entities.sentences(resolved).items():
                style = "" if resolved.consistent else "bold red"
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
    lines += _finding_lines(run, summary, width)
    lines += labelled("run file", str(run.path), width)
    return [*lines, *_void_lines(run, width)]


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


def _finding_lines(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    """Return the limit or the verdict, other findings, and what was cleared and skipped."""
    limit = summary.limit
    lines = [] if limit else labelled("verdict", summary.verdict, width)
    for finding in summary.limits[:FINDINGS_MAX]:
        text = f"{finding_name(finding.id)}: {finding.sentence}"
        label, style = ("limit", "yellow") if finding is limit else ("found", "")
        lines += labelled(label, text, width, style=style)
        if finding is limit:
            lines += labelled("might help", "; ".join(sentences.proposals(limit, summary)), width)
        lines += labelled("advice", finding.advice, width, spare=finding is not limit)
        lines += proving_lines(run, finding)
    minor = [f"{finding_name(f.id)}: {f.sentence}" for f in summary.minor[:FINDINGS_MAX]]
    lines += labelled("minor", "; ".join(minor), width)
    for status in ("cleared", "skipped"):
        names = finding_names(summary.findings, status)
        lines += labelled(status, _names_words(names), width, spare=status == "skipped")
    return lines


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


_Body = Callable[[RunFile, RunSummary, int], Iterable[Line]]
_BODIES: dict[str, tuple[_Body, int]] = {
    "investigate": (_investigation, LINES_MAX),
    "compare": (_comparison, PRICE_LINES_MAX),
    "price": (_price_list, PRICE_LINES_MAX),
    "drill": (_drill, RUN_LINES_MAX),
    "check": (_check, PRICE_LINES_MAX),
}
"""By command, the part of the summary that only it has, and the limit of lines."""


def _body_of(command: str) -> tuple[_Body, int]:
    if command in _BODIES:
        return _BODIES[command]
    return (_own, RUN_LINES_MAX + 10) if command in views() else (_single_run, RUN_LINES_MAX)
