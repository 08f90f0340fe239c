"""Summaries for the terminal: the run on one screen, in the order in which one asks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from rich.console import Console

from pgdyno.diagnose.groups import group_accounts
from pgdyno.diagnose.scaling import scaling_of
from pgdyno.record import ErrorTotal, RunFile, error_lines
from pgdyno.record.latencies import ScriptKind
from pgdyno.report.summary import NOT_MEASURED, Attempt, RunSummary, Step
from pgdyno.report.terminal._drill import drill_lines
from pgdyno.report.terminal._lines import (
    GAP,
    LABEL_WIDTH,
    Line,
    fields_beside,
    fitted,
    labelled,
    print_lines,
    table_lines,
    without_double_blanks,
    wrapped,
)
from pgdyno.report.terminal.story import chapter_lines
from pgdyno.report.words import accounts, numbers, price_list, sentences
from pgdyno.report.words.course import change_sentences, course_in, drop_sentences
from pgdyno.report.words.sentences import finding_name

LINES_MAX = 39
RUN_LINES_MAX = 54
"""A single run has tables of its groups and statements besides."""
PRICE_LINES_MAX = 200
"""A price list is read line by line: a table and a sentence for each candidate, none left out."""
STATEMENTS_MAX = 5
STATEMENT_WIDTH = 44
PLAIN_WIDTH = 120
NAME_MAX = 22
"""Letters of a candidate that leave its figures their room; the whole name stands below them."""
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
"""Response time and its parts, as the summary names them."""


def stdout_console() -> Console:
    """A console on stdout that is plain where NO_COLOR or PG_COLOR say so, or when not a terminal.

    PG_COLOR is as for PostgreSQL's own programs: always, auto or never. NO_COLOR wins.
    """
    wish = os.environ.get("PG_COLOR", "auto")
    if os.environ.get("NO_COLOR") or wish == "never":
        return Console(color_system=None, highlight=False)
    return Console(force_terminal=True if wish == "always" else None, highlight=False)


def terminal_summary(run: RunFile, console: Console) -> None:
    """Prints the summary of ``run``."""
    width = console.width if console.is_terminal else PLAIN_WIDTH
    print_lines(summary_lines(run, width), console)


def summary_lines(run: RunFile, width: int) -> list[Line]:
    """The summary, no line longer than ``width`` where its words allow, at most LINES_MAX lines."""
    story = RunSummary(run)
    if story.info.command == "drill":
        return _drill(run, story, width)
    most = {"investigate": LINES_MAX, "compare": LINES_MAX, "price": PRICE_LINES_MAX}
    body: dict[str, Callable[[RunFile, RunSummary, int], Iterable[Line]]] = {
        "investigate": _investigation,
        "compare": _comparison,
        "price": _price_list,
    }
    make = body.get(story.info.command, _single_run)
    lines = [
        *wrapped(
            " · ".join(sentences.setting_of_run(story.info, story.connected)),
            width,
            spare_rest=True,
        ),
        *_incident_lines(story, width),
        *_distrust_lines(story, width),
        Line(""),
        *make(run, story, width),
        *labelled("void", sentences.void_words(run), width, style="yellow"),
        *_warnings(story, width),
    ]
    return fitted(without_double_blanks(lines), most.get(story.info.command, RUN_LINES_MAX))


def _incident_lines(story: RunSummary, width: int) -> list[Line]:
    """What happened to the server, before any figure."""
    lines = [
        line
        for each in story.incidents[:INCIDENTS_MAX]
        for line in labelled(
            "incident", f"at {numbers.clock(each.at_ms)} {each.sentence}", width, style="bold red"
        )
    ]
    more = len(story.incidents) - INCIDENTS_MAX
    return lines + (labelled("", f"and {more} more", width) if more > 0 else [])


def _drill(run: RunFile, story: RunSummary, width: int) -> list[Line]:
    lines = [
        *wrapped(
            " · ".join(sentences.setting_of_run(story.info, story.connected)),
            width,
            spare_rest=True,
        ),
        Line(""),
        *chapter_lines(story.info.result, width),
        *_distrust_lines(story, width),
        *drill_lines(run, width),
        *_warnings(story, width),
    ]
    return fitted(without_double_blanks(lines), RUN_LINES_MAX)


def _investigation(run: RunFile, story: RunSummary, width: int) -> list[Line]:
    """The chain of steps, as a story."""
    lines = labelled("noise", sentences.noise_sentence(story), width, label_width=8)
    lines += [Line("")] if lines else []
    for step in story.steps:
        lines += _step_lines(step, story, width)
    lines += wrapped(sentences.rechecks_sentence(story), width)
    lines += wrapped(sentences.next_limit_sentence(story), width)
    if not story.steps:
        lines += _found_lines(story, width)
    lines += _apply_lines(story, width)
    lines.append(Line(""))
    lines += _change_line(story, width)
    return lines


def _step_lines(step: Step, story: RunSummary, width: int) -> list[Line]:
    name = finding_name(step.finding) or "further changes"
    head = f"{step.number}  {name}"
    helped = any(a.outcome not in ("rejected", NOT_MEASURED) for a in step.attempts)
    indent = max(24, len(head) + 2)
    lines = labelled(head, step.sentence or " ", width, label_width=indent, spare=not helped)
    for attempt in step.attempts:
        lines += _attempt_lines(attempt, story, width)
    return lines


def _attempt_lines(attempt: Attempt, story: RunSummary, width: int) -> list[Line]:
    title = (
        attempt.title if attempt.loses_nothing else f"{attempt.title}  {attempt.durability_class}"
    )
    parts = []
    if predicted := sentences.predicted_words(attempt):
        parts.append(f"predicted {predicted}")
    if measured := sentences.measured_words(attempt):
        parts.append(f"measured {measured}")
    moved = attempt.outcome in KEPT_OR_OFFERED and not attempt.rate_held
    if moved and attempt.latency_p99:
        parts.append(f"p99 {numbers.change_percent(attempt.latency_p99.ratio)}")
    parts += [sentences.decision_words(attempt), sentences.set_by_words(attempt)]
    if attempt.outcome in KEPT_OR_OFFERED:
        parts.append(sentences.price_words(attempt, story))
    return fields_beside(
        f"{GAP}{title:<{TITLE_WIDTH}}", [part for part in parts if part], width, indent=6,
        style=STYLES.get(attempt.outcome, ""),
        spare=attempt.outcome in ("rejected", NOT_MEASURED),
    )  # fmt: skip


def _change_line(story: RunSummary, width: int) -> list[Line]:
    """Before and after in one line."""
    before, after = story.before, story.after
    if before is None or after is None:
        return []
    taken = sentences.time_taken(story.info)
    if story.changed:
        parts = [
            f"{numbers.tps(before.throughput_tps)} → {numbers.tps(after.throughput_tps)} tps"
            f" ({story.gain_words})",
            f"p99 {numbers.from_to_ms(before.latency_p99_ms, after.latency_p99_ms)}"
            f" ({story.p99_gain_words})",
        ]
    else:
        parts = [
            f"{numbers.tps(after.throughput_tps)} tps", f"p99 {numbers.ms(after.latency_p99_ms)}"
        ]  # fmt: skip
    text = " · ".join([*parts, *([taken] if taken else [])])
    return [Line(line.text, "bold") for line in wrapped(text, width)]


def _apply_lines(story: RunSummary, width: int) -> list[Line]:
    """What to type to have for good what was kept, and to be rid of it; the trials put everything
    back."""
    kept = story.kept
    lines = []
    for label, rows in (
        ("to apply", kept.lines_to_apply()),
        ("to undo", kept.lines_to_undo(story.before_all)),
    ):
        lines += labelled(label, rows[0], width, label_width=10, spare=True) if rows else []
        lines += [Line(f"{'':10}{row}", spare=True) for row in rows[1:]]
    return lines


def _comparison(run: RunFile, story: RunSummary, width: int) -> list[Line]:
    """One question and its answer."""
    attempt = story.comparison
    lines = chapter_lines(story.info.result, width)
    lines += labelled("noise", sentences.noise_sentence(story), width)
    if attempt is None:
        return lines
    said = [attempt.title, sentences.set_by_words(attempt)]
    lines += labelled("change", GAP.join(part for part in said if part), width)
    lines += labelled("durability", sentences.assessed_words(attempt), width)
    lines += labelled("price", attempt.assessment.price, width)
    before, after = attempt.trial.baseline_tps, attempt.trial.changed_tps
    if attempt.throughput is not None:
        lines += labelled(
            "throughput",
            f"{attempt.throughput}{GAP}{numbers.tps(before)} → {numbers.tps(after)} tps"
            f"{GAP}{attempt.trial.pairs} pairs",
            width,
        )
    if attempt.latency_p99 is not None:
        moved = ""
        if attempt.p99_before_ms:
            moved = f"{GAP}{numbers.from_to_ms(attempt.p99_before_ms, attempt.p99_after_ms)}"
        lines += labelled("p99", f"{attempt.latency_p99}{moved}", width)
    lines += labelled("failures", sentences.failure_words(run, attempt), width)
    lines.append(Line(""))
    style = f"bold {STYLES.get(attempt.outcome, '')}".strip()
    lines += wrapped(sentences.comparison_sentence(attempt), width, style=style)
    return lines


def _price_list(run: RunFile, story: RunSummary, width: int) -> list[Line]:
    """The table of gains and losses, then a sentence for each candidate."""
    lines = labelled("noise", sentences.noise_sentence(story), width)
    gains = price_list.gain_rows(story, name_max=NAME_MAX)
    lines += [Line(""), *table_lines(price_list.gain_head(story), gains, width), Line("")]
    lines += [*_drill_table(story, width), Line("")]
    for price in price_list.prices(story):
        style = "" if price.durability_class == "D0" else "yellow"
        words = f"{price.title}: {'; '.join(price_list.sentence_parts(price))}"
        lines += labelled(price.durability_class, words, width, style=style, label_width=4)
    lines += [Line(""), *labelled("verdict", story.verdict, width)]
    lines += labelled("p99", price_list.p99_words(story), width)
    for number, said in enumerate(price_list.differences(story)):
        lines += labelled("" if number else "against", said, width)
    lines += labelled("time", sentences.time_taken(story.info), width)
    return [*lines, *labelled("run file", str(run.path), width)]


def _drill_table(story: RunSummary, width: int) -> list[Line]:
    """A row for each drill, named by its candidate and its fault."""
    rows = price_list.loss_rows(story, name_max=NAME_MAX)
    if not rows:
        return []
    names = max(len(row[0]) for row in rows)
    joined = [[f"{name:<{names}}  {drill}", *cells] for name, drill, *cells in rows]
    return table_lines(price_list.LOSS_HEAD, joined, width)


def _single_run(run: RunFile, story: RunSummary, width: int) -> list[Line]:
    """One run: figures first, then what they mean."""
    ids = story.before.slice_ids if story.before else None
    lines = labelled("throughput", sentences.throughput_words(run, story), width)
    lines += _open_loop_lines(run, ids, width)
    if said := story.info.result.get("steadiness"):
        lines += labelled("steadiness", str(said), width)
    lines += _course_lines(run, story, width)
    lines += [Line(""), *_latency_lines(run, story, width)]
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
    lines += _found_lines(story, width)
    lines += labelled("run file", str(run.path), width)
    return lines


def _course_lines(run: RunFile, story: RunSummary, width: int) -> list[Line]:
    """Sudden changes, drops, and the knee of a ramp."""
    lines = []
    if course := course_in(run, story):
        for label, said, found in (
            ("changes", change_sentences(course), course.changes),
            ("drops", drop_sentences(course), course.drops),
        ):
            for number, sentence in enumerate(said):
                name = "" if number else label
                lines += labelled(name, sentence, width, style="yellow" if found else "")
    if scaling := scaling_of(run):
        lines += labelled("knee", scaling.sentence, width)
    return lines


def _open_loop_lines(run: RunFile, ids: list[int] | None, width: int) -> list[Line]:
    """What became of the rates that were asked for; a line for each open loop."""
    said = accounts.open_loop_sentences(run, ids)
    several = len(said) > 1 or len(run.run.spec.get("clients") or []) > 1
    lines = []
    for number, (name, sentence) in enumerate(said.items()):
        text = f"{name}: {sentence}" if several else sentence
        style = "" if sentence.startswith("held") else "yellow"
        lines += labelled("rate" if number == 0 else "", text, width, style=style)
    return lines


def _latency_lines(run: RunFile, story: RunSummary, width: int) -> list[Line]:
    """A small table of percentiles in milliseconds."""
    if story.before is None:
        return []
    head = ["latency, ms", *accounts.PERCENTILE_NAMES, "max", "samples"]
    rows = []
    histograms = accounts.shown_times(run, story.before.slice_ids)
    for kind, histogram in histograms.items():
        if histogram.count:
            name = TIMES[kind]
            figures = [accounts.told_ms(histogram, p) for p in accounts.PERCENTILES]
            largest = numbers.ms_figure(histogram.max / 1e6)
            rows.append([name, *figures, largest, numbers.count(histogram.count)])
    return table_lines(head, rows, width)


def _group_lines(run: RunFile, ids: list[int] | None, width: int) -> list[Line]:
    """A row for each client group, where there are several, and what connecting took."""
    lines: list[Line] = []
    if table := accounts.groups_table(run, ids):
        head = ["groups", *table.head[1:]]
        lines += table_lines(head, [[f"  {row[0]}", *row[1:]] for row in table.rows], width)
    return [*lines, Line(""), *_connect_lines(run, ids, width)]


def _connect_lines(run: RunFile, ids: list[int] | None, width: int) -> list[Line]:
    """Medians of the phases of connecting, for groups that connected while it was measured."""
    rows = []
    for group in group_accounts(run, ids):
        if not group.connects.matter:
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
                accounts.told_ms(total, 99),
                numbers.ms_figure(total.max / 1e6) if total.count else "",
            ]
        )  # fmt: skip
    phases = [*accounts.CONNECT_PHASES.values()][:-1]
    head = ["connecting, ms", "made", "failed", *(f"{name} p50" for name in phases), "p50", "p99",
            "max"]  # fmt: skip
    return table_lines(head, rows, width)


def _statement_lines(run: RunFile, ids: list[int] | None, width: int) -> list[Line]:
    """The statements that take the most time."""
    totals = run.statements(ids)
    if len(totals) < 2:
        return []
    dearest = list(accounts.by_time(totals).items())[:STATEMENTS_MAX]
    several = len({(t.client_group, t.script) for t in totals}) > 1
    rows = []
    for t, share in dearest:
        name = f"{accounts.statement_origin(t)}: {t.statement}" if several else t.statement
        name = " ".join(name.split())
        if len(name) > STATEMENT_WIDTH:
            name = f"{name[: STATEMENT_WIDTH - 1]}…"
        counts = [numbers.percent(share), numbers.count(t.done), numbers.count(t.failed)]
        figures = [accounts.told_ms(t.service, p) for p in (50, 99, 99.9)]
        mean = numbers.ms_figure(t.service.mean / 1e6)
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
            lines += _told_lines(error, width, headless=len(errors) == 1)
    return lines


def _told_lines(error: ErrorTotal, width: int, *, headless: bool) -> list[Line]:
    """All that is known of an error; ``headless`` without its message, which stands above."""
    lines = []
    for line in error_lines(error)[headless:]:
        text = f"{'':{LABEL_WIDTH}}{line}"
        if len(text) <= width:
            lines.append(
                Line(text, spare=True)
            )  # As it is: a mark shows a place in the line above.
        else:
            lines += wrapped(text, width, indent=LABEL_WIDTH + 4, spare=True)
    return lines


def _found_lines(story: RunSummary, width: int) -> list[Line]:
    """What limits, what else was found, what was cleared and what was skipped."""
    lines: list[Line] = []
    for finding in story.limits[:FINDINGS_MAX]:
        label = "limit" if finding.rank == 1 else "found"
        text = f"{finding_name(finding.finding)}: {finding.sentence}"
        lines += labelled(label, text, width, style="yellow" if finding.rank == 1 else "")
    if story.limits:
        proposals = sentences.proposals(story.limits[0], story)
        lines += labelled("might help", "; ".join(proposals), width)
    for status in ("cleared", "skipped"):
        names = sentences.finding_names(story.findings, status)
        lines += labelled(status, ", ".join(names), width, spare=status == "skipped")
    if not story.limits:
        lines = [*labelled("verdict", story.verdict, width), *lines]
    return lines


def _warnings(story: RunSummary, width: int) -> list[Line]:
    """What a reader must know before relying on any of it."""
    lines = []
    if disk := story.emulated:
        text = f"{disk}: these are not the speeds of a real disk"
        lines += labelled("emulated", text, width, style="yellow")
    if story.info.status not in ("done", "running", "broken"):
        detail = story.info.status_detail
        said = f"{story.info.status}{f': {detail}' if detail else ''}"
        lines += labelled("status", said, width, style="red")
    return [Line(""), *lines] if lines else []


def _distrust_lines(story: RunSummary, width: int) -> list[Line]:
    """Why no figure below can be relied on, before any of them."""
    if not story.distrust:
        return []
    return labelled("not trusted", "; ".join(story.distrust), width, style="bold red")
