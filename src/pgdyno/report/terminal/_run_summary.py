"""Terminal summaries of run files, on one screen."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from rich.console import Console

from pgdyno.diagnose.groups import group_accounts
from pgdyno.diagnose.scaling import scaling_of
from pgdyno.record import ErrorTotal, RunFile, error_lines
from pgdyno.record.latencies import ScriptKind
from pgdyno.report.attempts import NOT_MEASURED, Attempt
from pgdyno.report.summary import RunSummary, Step
from pgdyno.report.terminal._drill import drill_lines
from pgdyno.report.terminal._lines import (
    GAP,
    LABEL_WIDTH,
    Line,
    fields_beside,
    labelled,
    limited,
    print_lines,
    table_lines,
    width_of,
    without_double_blanks,
    wrapped,
)
from pgdyno.report.terminal.story import chapter_lines
from pgdyno.report.words import accounts, numbers, price_list, sentences
from pgdyno.report.words.course import change_sentences, course_in, drop_sentences
from pgdyno.report.words.sentences import finding_name

LINES_MAX = 39
RUN_LINES_MAX = 54
"""Limit for a single run, which also has tables of groups and statements."""
PRICE_LINES_MAX = 200
"""Limit for a price list, which has a row and a sentence for each candidate."""
STATEMENTS_MAX = 5
STATEMENT_WIDTH = 44
NAME_MAX = 22
"""Maximum length of a candidate's name in the table; the full title follows below."""
TITLE_WIDTH = 30
FINDINGS_MAX = 4
ERRORS_MAX = 3
INCIDENTS_MAX = 4

KEPT_OR_OFFERED = ("kept", "offered", "still earns")
STYLES = {
    "kept": "green",
    "still earns": "green",
    "better": "green",
    "offered": "yellow",
    "inconclusive": "yellow",
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


def summary_lines(run: RunFile, width: int) -> list[Line]:
    """Return the lines of the summary, wrapped at ``width``, up to the limit for its command."""
    summary = RunSummary(run)
    body, lines_max = _BODIES.get(summary.info.command, (_single_run, RUN_LINES_MAX))
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
            "incident", f"at {numbers.clock(each.at_ms)} {each.sentence}", width, style="bold red"
        )
    ]
    more = len(summary.incidents) - INCIDENTS_MAX
    return lines + (labelled("", f"and {more} more", width) if more > 0 else [])


def _drill(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    return drill_lines(run, width)


def _investigation(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    """Return the steps of an investigation and its result."""
    lines = labelled("noise", sentences.noise_sentence(summary), width, label_width=8)
    lines += [Line("")] if lines else []
    for step in summary.steps:
        lines += _step_lines(step, summary, width)
    lines += wrapped(sentences.rechecks_sentence(summary), width)
    lines += wrapped(sentences.next_limit_sentence(summary), width)
    if not summary.steps:
        lines += _finding_lines(summary, width)
    lines += _apply_lines(summary, width)
    lines.append(Line(""))
    lines += _change_line(summary, width)
    return [*lines, *_void_lines(run, width)]


def _void_lines(run: RunFile, width: int) -> list[Line]:
    return labelled("void", sentences.void_words(run), width, style="yellow")


def _step_lines(step: Step, summary: RunSummary, width: int) -> list[Line]:
    name = finding_name(step.finding) or "further changes"
    head = f"{step.number}  {name}"
    helped = any(a.outcome not in ("rejected", NOT_MEASURED) for a in step.attempts)
    indent = max(24, len(head) + 2)
    lines = labelled(head, step.sentence or " ", width, label_width=indent, spare=not helped)
    for attempt in step.attempts:
        lines += _attempt_lines(attempt, summary, width)
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
    if attempt.outcome in KEPT_OR_OFFERED and not attempt.rate_held and attempt.latency_p99:
        parts.append(f"p99 {numbers.change_percent(attempt.latency_p99.ratio)}")
    parts += [sentences.decision_words(attempt), sentences.set_by_words(attempt)]
    if attempt.outcome in KEPT_OR_OFFERED:
        parts.append(sentences.price_words(attempt, summary))
    return fields_beside(
        f"{GAP}{title:<{TITLE_WIDTH}}", [part for part in parts if part], width, indent=6,
        style=STYLES.get(attempt.outcome, ""),
        spare=attempt.outcome in ("rejected", NOT_MEASURED),
    )  # fmt: skip


def _change_line(summary: RunSummary, width: int) -> list[Line]:
    """Return throughput and p99 before and after in one line."""
    before, after = summary.before, summary.after
    if before is None or after is None:
        return []
    taken = sentences.time_taken(summary.info)
    if summary.changed:
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
        lines += labelled(label, rows[0], width, label_width=10, spare=True) if rows else []
        lines += [Line(f"{'':10}{row}", spare=True) for row in rows[1:]]
    return lines


def _comparison(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    """Return the change, its effect and the verdict of a comparison."""
    attempt = summary.comparison
    lines = labelled("noise", sentences.noise_sentence(summary), width)
    if attempt is None:
        return lines
    change = [attempt.title, sentences.set_by_words(attempt)]
    lines += labelled("change", GAP.join(part for part in change if part), width)
    lines += labelled("durability", sentences.assessed_words(attempt), width)
    lines += labelled("price", attempt.assessment.price, width)
    for label, words in sentences.level_words(attempt).items():
        lines += labelled(label, GAP.join(words), width)
    lines += labelled("failures", sentences.failure_words(run, attempt), width)
    lines.append(Line(""))
    style = f"bold {STYLES.get(attempt.outcome, '')}".strip()
    lines += wrapped(sentences.comparison_sentence(attempt), width, style=style)
    return [*lines, *_void_lines(run, width)]


def _price_list(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    """Return the tables of gains and losses, then a sentence for each candidate."""
    lines = labelled("noise", sentences.noise_sentence(summary), width)
    gains = price_list.gain_rows(summary, name_max=NAME_MAX)
    lines += [Line(""), *table_lines(price_list.gain_head(summary), gains, width), Line("")]
    lines += [*_drill_table(summary, width), Line("")]
    for price in price_list.prices(summary):
        style = "" if price.durability_class == "D0" else "yellow"
        sentence = f"{price.title}: {'; '.join(price_list.sentence_parts(price))}"
        lines += labelled(price.durability_class, sentence, width, style=style, label_width=4)
    lines += [Line(""), *labelled("verdict", summary.verdict, width)]
    lines += labelled("p99", price_list.p99_words(summary), width)
    for number, sentence in enumerate(price_list.differences(summary)):
        lines += labelled("" if number else "compared", sentence, width)
    lines += labelled("time", sentences.time_taken(summary.info), width)
    return [*lines, *labelled("run file", str(run.path), width), *_void_lines(run, width)]


def _drill_table(summary: RunSummary, width: int) -> list[Line]:
    """Return a row for each drill, named by its candidate and its fault."""
    rows = price_list.loss_rows(summary, name_max=NAME_MAX)
    if not rows:
        return []
    names = max(len(row[0]) for row in rows)
    joined = [[f"{name:<{names}}  {drill}", *cells] for name, drill, *cells in rows]
    return table_lines(price_list.LOSS_HEAD, joined, width)


def _single_run(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    """Return the figures of a single run, then its findings."""
    ids = summary.before.slice_ids if summary.before else None
    lines = labelled("throughput", sentences.throughput_words(run, summary), width)
    lines += _open_loop_lines(run, ids, width)
    if summary.single_run is not None:
        lines += labelled("steadiness", summary.single_run.steadiness, width)
    lines += _course_lines(run, summary, width)
    lines += [Line(""), *_latency_lines(run, summary, width)]
    lines += [Line(""), *_group_lines(run, ids, width)]
    lines += [Line(""), *_statement_lines(run, ids, width)]
    lines.append(Line(""))
    if run.ledger().intended:
        lines += labelled(
            "ledger", f"{accounts.ledger_identity(run.ledger())}, over the whole run", width
        )
    lines += _error_lines(run, width)
    if run.generator().threads:
        lines += labelled("generator", accounts.generator_words(run), width)
    lines.append(Line(""))
    lines += _finding_lines(summary, width)
    lines += labelled("run file", str(run.path), width)
    return [*lines, *_void_lines(run, width)]


def _course_lines(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    """Return sudden changes, drops, and the knee of a ramp."""
    lines = []
    if course := course_in(run, summary):
        for label, course_sentences, found in (
            ("changes", change_sentences(course), course.changes),
            ("drops", drop_sentences(course), course.drops),
        ):
            for number, sentence in enumerate(course_sentences):
                name = "" if number else label
                lines += labelled(name, sentence, width, style="yellow" if found else "")
    if scaling := scaling_of(run):
        lines += labelled("knee", scaling.sentence, width)
    return lines


def _open_loop_lines(run: RunFile, ids: list[int] | None, width: int) -> list[Line]:
    """Return for each open loop whether its rate was held."""
    by_group = accounts.open_loop_sentences(run, ids)
    held = {group.name: group.rate_held for group in group_accounts(run, ids)}
    several = len(by_group) > 1 or len(run.run.spec.get("clients") or []) > 1
    lines = []
    for number, (name, sentence) in enumerate(by_group.items()):
        text = f"{name}: {sentence}" if several else sentence
        style = "" if held[name] else "yellow"
        lines += labelled("rate" if number == 0 else "", text, width, style=style)
    return lines


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


def _statement_lines(run: RunFile, ids: list[int] | None, width: int) -> list[Line]:
    """Return the statements that take the most time."""
    totals = run.statements(ids)
    if len(totals) < 2:
        return []
    slowest = list(accounts.by_time(totals).items())[:STATEMENTS_MAX]
    several = len({(t.client_group, t.script) for t in totals}) > 1
    rows = []
    for t, share in slowest:
        name = f"{accounts.statement_origin(t)}: {t.statement}" if several else t.statement
        name = " ".join(name.split())
        if len(name) > STATEMENT_WIDTH:
            name = f"{name[: STATEMENT_WIDTH - 1]}…"
        counts = [numbers.percent(share), numbers.count(t.done), numbers.count(t.failed)]
        figures = [accounts.percentile_ms(t.service, p) for p in (50, 99, 99.9)]
        mean = numbers.ms_figure(t.service.mean / 1e6) if t.service.count else numbers.ABSENT
        rows.append([f"  {name}", *counts, mean, *figures])
    more = len(totals) - len(rows)
    label = f"statements, ms{f' ({more} more)' if more else ''}"
    head = [label, "time", "done", "failed", "mean", "p50", "p99", "p99.9"]
    return [Line(line.text, bold_to=line.bold_to, spare=True)
            for line in table_lines(head, rows, width)]  # fmt: skip


def _error_lines(run: RunFile, width: int) -> list[Line]:
    errors = run.errors()
    if not errors:
        return labelled("errors", "none", width)
    shown = [
        f"{numbers.count(e.count)} × {accounts.sqlstate_words(e)}" for e in errors[:ERRORS_MAX]
    ]
    if len(errors) > ERRORS_MAX:
        shown.append(f"and {len(errors) - ERRORS_MAX} more kinds")
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
    """Return the limit, other findings, and what was cleared and skipped."""
    lines: list[Line] = []
    for finding in summary.limits[:FINDINGS_MAX]:
        label = "limit" if finding.rank == 1 else "found"
        text = f"{finding_name(finding.finding)}: {finding.sentence}"
        lines += labelled(label, text, width, style="yellow" if finding.rank == 1 else "")
    if summary.limits:
        proposals = sentences.proposals(summary.limits[0], summary)
        lines += labelled("might help", "; ".join(proposals), width)
    for status in ("cleared", "skipped"):
        names = sentences.finding_names(summary.findings, status)
        lines += labelled(status, ", ".join(names), width, spare=status == "skipped")
    if not summary.limits:
        lines = [*labelled("verdict", summary.verdict, width), *lines]
    return lines


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
    "compare": (_comparison, LINES_MAX),
    "price": (_price_list, PRICE_LINES_MAX),
    "drill": (_drill, RUN_LINES_MAX),
}
"""By command, the part of the summary that only it has, and the limit of lines."""
