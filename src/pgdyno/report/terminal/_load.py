"""The lines of a terminal summary about a load: latency budget, sessions, requests by HTTP and what
stands between clients and server, statements by the clients' and by the server's own counts, rates
and the course over time."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pgdyno import numbers
from pgdyno._engine import Histogram
from pgdyno.facts.groups import group_accounts
from pgdyno.facts.scaling import scaling_of
from pgdyno.facts.statement_times import time_notes
from pgdyno.record import HttpTotal, RunFile, SliceKind, StatementTotal
from pgdyno.report.summary import RunSummary
from pgdyno.report.terminal._lines import Line, labelled, table_lines, wrapped
from pgdyno.report.words import accounts, sessions, statements
from pgdyno.report.words.budget import budget_in, budget_words, note, statement_words
from pgdyno.report.words.course import change_sentences, course_in, drop_sentences
from pgdyno.report.words.front import run_words
from pgdyno.report.words.pooler import queue_words
from pgdyno.report.words.prose import cut
from pgdyno.results.run_parts import ServerStatements

_CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")
STATEMENTS_MAX = 5
GROUPS_MAX = 8
STATEMENT_WIDTH = 44


def budget_lines(summary: RunSummary, width: int) -> list[Line]:
    """Return the parts of the mean response time, those of the largest statements, and a note on
    what is not known of them."""
    budget = budget_in(summary)
    if budget is None:
        return []
    lines = labelled("mean", budget_words(budget), width)
    for number, sentence in enumerate(statement_words(budget)):
        lines += labelled("" if number else "of this", sentence, width, spare=True)
    return lines + labelled("note", note(budget), width)


def session_lines(run: RunFile, ids: Collection[int] | None, width: int) -> list[Line]:
    """Return a sentence and a table of origins, where sessions have several purposes or many do
    nothing."""
    if not sessions.is_notable(run, ids):
        return []
    words = sessions.sentence(run, ids)
    lines = [Line(""), *labelled("sessions", words, width)]
    table = sessions.origins_table(run, ids)
    if table is None:
        return lines
    rows = [[f"  {row[0]}", *row[1:]] for row in table.rows]
    return [*lines, *table_lines(["sessions of", *table.head[1:]], rows, width)]


def between_lines(run: RunFile, ids: list[int] | None, width: int) -> list[Line]:
    """Return a line for each program of pgdyno's between clients and server: pooler, front end."""
    of_pooler = labelled("pooler", queue_words(run, ids), width)
    return [*of_pooler, *labelled("web", run_words(run, ids), width)]


def request_lines(run: RunFile, ids: list[int] | None, width: int) -> list[Line]:
    """Return a line for each client group that sends requests."""
    totals = run.http_totals(ids)
    lines = []
    for number, total in enumerate(totals):
        words = "; ".join(_words(total, _first_bytes(run, ids, total.client_group)))
        text = f"{total.client_group}: {words}" if len(totals) > 1 else words
        lines += labelled("" if number else "requests", text, width)
    return lines


def _words(total: HttpTotal, first_byte: Histogram) -> Iterator[str]:
    answered = [(name, getattr(total, f"status_{name}")) for name in _CLASSES]
    listed = ", ".join(f"{numbers.count(count)} {name}" for name, count in answered if count)
    yield f"{numbers.count(total.requests)} sent, {listed or 'none answered'}"
    fresh = total.requests - total.reused
    if fresh:
        yield f"{total.requests / fresh:.3g} per connection"
    if total.closed_by_server:
        yield f"{numbers.count(total.closed_by_server)} connections closed by the server"
    if total.redirected:
        yield f"{numbers.count(total.redirected)} redirected"
    yield f"{numbers.size(total.sent_bytes)} sent, {numbers.size(total.received_bytes)} received"
    if first_byte.count:
        p50, p99 = (numbers.ms(first_byte.percentile(p) / 1e6) for p in (50, 99))
        yield f"first byte after p50 {p50}, p99 {p99}"


def _first_bytes(run: RunFile, ids: list[int] | None, group: str) -> Histogram:
    merged = Histogram()
    for total in run.statements(ids):
        if total.client_group == group and total.first_byte is not None:
            merged.add(total.first_byte)
    return merged


def statement_lines(run: RunFile, ids: list[int] | None, width: int) -> list[Line]:
    """Return the statements that take the most time, and those that never changed a row."""
    totals = run.statements(ids)
    untouched = labelled("no rows", accounts.untouched_words(totals), width, style="yellow")
    if len(totals) < 2:
        return untouched
    slowest = dict(list(accounts.by_time(totals).items())[:STATEMENTS_MAX])
    several = len({(t.client_group, t.script) for t in totals}) > 1
    rows = []
    for t, share in slowest.items():
        name = f"{accounts.statement_origin(t)}: {t.statement}" if several else t.statement
        counts = [numbers.percent(share), numbers.count(t.done), numbers.count(t.failed)]
        figures = [accounts.percentile_ms(t.service, p) for p in (50, 99, 99.9)]
        mean = numbers.ms_figure(t.service.mean / 1e6) if t.service.count else numbers.ABSENT
        rows.append([f"  {cut(name, STATEMENT_WIDTH)}", *counts, mean, *figures])
    more = len(totals) - len(rows)
    label = f"statements, ms{f' ({more} more)' if more else ''}"
    head = [label, "share", "done", "failed", "mean", "p50", "p99", "p99.9"]
    lines = [Line(line.text, bold_to=line.bold_to, spare=True)
             for line in table_lines(head, rows, width)]  # fmt: skip
    for each in time_notes(run, slowest):
        lines += wrapped(f"  {each}", width, indent=2, spare=True)
    return [*lines, *untouched]


def server_statement_lines(found: ServerStatements | None, width: int) -> list[Line]:
    """Return the groups of statements that took the most time on the server."""
    if found is None:
        return []
    said = statements.sentences(found)
    if found.absent:
        return labelled("on server", said[0], width, style="yellow")
    columns, rows = statements.short_rows(found, GROUPS_MAX, STATEMENT_WIDTH)
    more = len(found.groups) - len(rows)
    head = [f"on the server{f' ({more} more)' if more else ''}", *columns]
    lines = table_lines(head, [[f"  {row[0]}", *row[1:]] for row in rows], width)
    for each in said[1:]:
        lines += wrapped(f"  {each}", width, indent=2, style="yellow")
    return lines


def course_lines(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    """Return sudden changes, drops, and the knee of a ramp."""
    lines = []
    if course := course_in(run, summary):
        for label, course_sentences, found in (
            ("changes", change_sentences(course), course.all_changes),
            ("drops", drop_sentences(course), course.drops),
        ):
            for number, sentence in enumerate(course_sentences):
                name = "" if number else label
                lines += labelled(name, sentence, width, style="yellow" if found else "")
    if scaling := scaling_of(run):
        lines += labelled("knee", scaling.sentence, width)
    return lines


def open_loop_lines(run: RunFile, ids: list[int] | None, width: int) -> list[Line]:
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


def per_statement_lines(run: RunFile) -> Iterator[str]:
    """Yield latency and failures of every statement as ``pgbench -r`` prints them: a table for each
    script of each group, over the measured slices."""
    totals = run.statements(run.valid_slices(SliceKind.RUN))
    several_groups = len({total.client_group for total in totals}) > 1
    yield "statement latencies in milliseconds (mean, p99), done and failed:"
    for group, script in dict.fromkeys((t.client_group, t.script) for t in totals):
        yield f"{group}: {script}" if several_groups else script
        of_script = [t for t in totals if (t.client_group, t.script) == (group, script)]
        for total in sorted(of_script, key=lambda total: total.position):
            yield _statement_line(total)
    yield from (f"({each})" for each in time_notes(run, totals))
    if untouched := accounts.untouched_words(totals):
        yield f"({untouched})"


def _statement_line(total: StatementTotal) -> str:
    mean, p99 = total.service.mean / 1e6, total.service.percentile(99) / 1e6
    times = f"{mean:>12.3f} {p99:>12.3f}" if total.service.count else f"{'—':>12} {'—':>12}"
    return f"{times} {total.done:>12,} {total.failed:>10,}  {total.statement}"
