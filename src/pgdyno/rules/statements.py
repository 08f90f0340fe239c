"""Statements, and what is done with each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.escaping import shell_line
from pgdyno.facts.budget import Part
from pgdyno.facts.plans import (
    RESULT_ROWS_MIN,
    WORK_MEM,
    TimedChange,
    changes_jit,
    is_analyzed,
    is_of_spilling,
    large_results,
    large_results_part,
    timed_settings,
    unusual_settings,
)
from pgdyno.facts.sessions import transfer_ms
from pgdyno.facts.setting_costs import Costly, costly_settings_of
from pgdyno.facts.sight import Sight, alter_system, measured, proposed
from pgdyno.facts.situation import Situation
from pgdyno.facts.unusual import untried_settings
from pgdyno.numbers import figure, listed, percent
from pgdyno.record import UnusualSetting
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.rules._cpu_uses import cpu_parts, cpu_uses, ratio_without, response_share
from pgdyno.rules._pools import WORTHWHILE_RATIO
from pgdyno.rules._statement_families import StatementFamily, shapes
from pgdyno.rules._timed_changes import (
    COST_SHARE,
    is_costly,
    proposals_of,
    refuse_if_undecided,
    saved_evidence,
    settings_title,
    weight_of,
)
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change
from pgdyno.spec.server_settings import DEFAULTS
from pgdyno.spec.sql_text import shortened

TRANSFER_SHARE = 0.2
ADVICE = (
    "ask for fewer rows and columns, or do in the server what the client does with them; a faster"
    " network between client and server, or clients on more cores, take large results sooner"
)


@rule(
    "large-results",
    false_positives=(
        "a load generator that is late to read answers because it has no core; COPY and reports,"
        " whose purpose is a large result"
    ),
)
def large_results_sent(s: Situation) -> Found | Cleared:
    """Large results: sessions wait for their clients to take what the server sends, or have most of
    their work with the rows of results.

    Trigger: sessions wait to send (``Client:ClientWrite``) for at least ``TRANSFER_SHARE`` of the
    response time. The server sends ahead what the buffers of the sockets hold, so that only results
    larger than these, or clients that read slowly, make it wait. Or statements that return
    ``RESULT_ROWS_MIN`` rows or more, most of those that they read, take that share, by their plans
    and the rows that these gave (see ``facts.plans``). The gain of fewer rows is not predicted:
    nobody knows how many the client needs.

    Distinct from round trips, in which the server has sent its answer and waits for the next
    statement (``round_trips``); from a queue for a core on the clients' machine, which the latency
    budget counts as that where it is the server's too.

    Threshold: that of round trips; calibrated by injection, a result of 10 MB over the loopback (60
    % of the working sessions waited to send) against results of one row (none).
    """
    s.waits  # noqa: B018 - raises Skip if the sessions were not sampled
    part = _part_of_sending(s)
    sending_ms = min(transfer_ms(s), s.budget.parts_ms.get(part, 0.0))
    share = sending_ms / s.budget.response_ms if sending_ms else 0.0
    evidence = [
        s.evidence(
            "waiting to send / response time", share, "share", f"at least {percent(TRANSFER_SHARE)}"
        ),
        s.evidence("waiting to send", transfer_ms(s), "ms"),
        *_generator_evidence(s),
    ]
    of = f"{figure(sending_ms)} of {figure(s.budget.response_ms)} ms"
    if share < TRANSFER_SHARE:
        return _of_rows(s, evidence)
    return Found(
        sentence=f"sessions wait {of} for their clients to take large results",
        parts=(part,),
        share=share if s.is_observed else None,
        removable_share=share,
        confidence=0.8,
        evidence=evidence,
        advice=ADVICE,
    )


def _of_rows(s: Situation, evidence: list[Evidence]) -> Found | Cleared:
    """Judge by the rows of the results, where sessions do not wait to send them."""
    large, share = large_results(s), response_share(s, "large-results")
    evidence.append(
        s.evidence(
            "statements with large results / response time",
            share,
            "share",
            f"at least {percent(TRANSFER_SHARE)}",
        )
    )
    if not large and not is_analyzed(s):
        raise Skip("the rows that statements return were not counted")
    if share < TRANSFER_SHARE:
        return Cleared("results of many rows take little of the response time", evidence)
    worst = large[0]
    assert worst.plan is not None
    rows = worst.plan.root.rows
    evidence.append(s.evidence("rows of a result", rows, "rows", f"at least {RESULT_ROWS_MIN}"))
    return Found(
        sentence=(
            f"a statement returns {figure(rows or 0.0)} rows at each execution, and so all of its"
            f" work is for them: {shortened(worst.total.statement)}"
        ),
        parts=cpu_parts(s),
        share=share * s.budget.begun,
        gain=ratio_without(s, large_results_part(s)),
        confidence=0.6,
        evidence=evidence,
        advice=ADVICE,
    )


def _part_of_sending(s: Situation) -> Part:
    """Return the part of the latency budget that the wait to send is in. Where no client timed its
    statements, all of a session's wait for its client is one part."""
    return "client" if s.is_observed else "between"


def _generator_evidence(s: Situation) -> list[Evidence]:
    """Return the time that pgdyno's own clients take to read the answers; none where others are the
    load."""
    if s.is_observed:
        return []
    generator_ms = 1000 * s.generator_cores / s.throughput_tps
    return [s.evidence("load generator's CPU per transaction", generator_ms, "ms")]


SETTINGS_SHOWN = 4
WAL_BUFFERS = "16MB"


@rule(
    "costly-settings",
    false_positives="a log that is wanted; images that a slow disk could not take uncompressed",
)
def costly_settings(s: Situation) -> Found | Cleared:
    """Settings that are not at their default and make statements take longer.

    Any setting that can matter for speed is a suspect, for all sessions or for a role or database
    alone. On a server that pgdyno started, the load's statements are executed beside it with the
    setting as it is and at its default, in turn, where a session may change it and it acts on the
    time of statements themselves: of the planner, memory, parallel workers, logging, statistics,
    developers' options and extensions. Trigger: the default saves at least ``COST_SHARE`` of the
    response time. JIT has its own rule, and work_mem where a larger one keeps sorts in memory.

    Such a trial cannot judge settings of WAL, commits, checkpoints, waits and of the server's other
    processes. While one of them is not at its default, settings are not cleared but not checked:
    ``pgdyno investigate`` tries them under load.

    wal_compression, wal_buffers and the logging of statements are estimated by counters as well, as
    sessions cannot change all of them (see ``facts.setting_costs``, which has the times and their
    calibration). Settings that make sessions wait are for the rules of those waits: commit_delay,
    checkpoint_timeout.
    """
    timed = [each for each in timed_settings(s) if _is_reset(s, each)]
    best = timed[0] if timed else None
    if best is not None and is_costly(s, best):
        return _timed(s, [each for each in timed if each.is_worthwhile])
    found, share = costly_settings_of(s), response_share(s, "costly-settings")
    evidence = [*_evidence(s, found, share), *_tried(s, timed)]
    if found and share >= COST_SHARE:
        return _counted(s, found, share, evidence)
    if untried := untried_settings(s):
        raise Skip(_untried_words(untried))
    for each in timed:
        refuse_if_undecided(each, settings_title(each))
    if _spills(s):
        raise Skip("work_mem makes statements take longer: see temp-files")
    return Cleared("no setting that is not at its default makes statements take longer", evidence)


def _untried_words(untried: Sequence[UnusualSetting]) -> str:
    """Return the settings that were not tried, and the way to find out what they cost."""
    names = listed([f"{each.name} = {each.value}" for each in untried], SETTINGS_SHOWN)
    single = shell_line(["pgdyno", "compare", "--set", f"{untried[0].name}={untried[0].reset}"])
    return (
        f"the effect of {names} was not measured; pgdyno investigate tries such settings at their"
        f" defaults, and {single} a single one"
    )


def _is_reset(s: Situation, timed: TimedChange) -> bool:
    """Return whether a trial was that of settings at their defaults; those that have a rule of
    their own apart: JIT's, and work_mem where plans write to disk."""
    names = {*timed.change.settings}
    if changes_jit(timed) or (names == {WORK_MEM} and _spills(s)):
        return False
    return names <= {each.name for each in unusual_settings(s)}


def _spills(s: Situation) -> bool:
    return any(is_of_spilling(s, each) and is_costly(s, each) for each in timed_settings(s))


def _timed(s: Situation, timed: list[TimedChange]) -> Found:
    """Name the setting whose default saves most, and propose each that saves enough."""
    best, worst = timed[0], timed[0].statements[0]
    values = {each.name: each.value for each in unusual_settings(s)}
    as_it_is = listed([f"{name} = {values[name]}" for name in best.change.settings])
    default = listed([*best.change.settings.values()])
    return Found(
        sentence=(
            f"with {as_it_is} a statement takes {figure(worst.ms)} ms, and"
            f" {figure(worst.changed_ms)} ms with the default, {default}:"
            f" {shortened(worst.total.statement)}"
        ),
        confidence=0.9,
        evidence=_tried(s, timed),
        proposals=proposals_of(
            s, timed, "reset-setting", "statements would be executed as with the default"
        ),
        **weight_of(s, best),
    )


def _tried(s: Situation, timed: list[TimedChange]) -> list[Evidence]:
    return [saved_evidence(s, each, settings_title(each), COST_SHARE) for each in timed]


def _counted(s: Situation, found: list[Costly], share: float, evidence: list[Evidence]) -> Found:
    worst, part = found[0], cpu_uses(s)["costly-settings"]
    return Found(
        sentence=(
            f"{worst.setting} = {worst.value} takes about {percent(part)} of the server's CPU time:"
            f" {worst.why}"
        ),
        parts=cpu_parts(s),
        share=share * s.budget.begun,
        gain=ratio_without(s, part),
        confidence=0.6,
        evidence=evidence,
        proposals=_resets(s, found, part),
    )


def _resets(s: Situation, found: list[Costly], part: float) -> list[Proposal]:
    cores = sum(each.cores for each in found)
    proposals = []
    for each in found:
        default = DEFAULTS.get(each.setting)
        remedy = "reset-setting" if default is not None else "wal-buffers"
        change = Change(settings={each.setting: default or WAL_BUFFERS})
        ratio = ratio_without(s, part * each.cores / cores)
        proposals.append(
            Proposal(
                remedy_id=remedy,
                change=change,
                predicted_ratio=ratio,
                why=f"now {each.why}",
                specific=True,
            )
        )
    return [p for p in proposals if p.predicted_ratio >= WORTHWHILE_RATIO]


def _evidence(s: Situation, found: list[Costly], share: float) -> list[Evidence]:
    bar = f"at least {percent(COST_SHARE)}"
    evidence = [s.evidence("settings / response time (estimate)", share, "share", bar)]
    for each in found:
        name = f"{each.setting} = {each.value} (estimate)"
        evidence.append(s.evidence(name, each.cores, "cores"))
    return evidence


PERIOD_MS_MIN = 5
STATEMENTS_MAX = 50_000
_EXPLAIN = "auto_explain"


@rule(
    "costly-extensions",
    looks=("setting",),
    false_positives="long statements only, beside which the time is nothing",
)
def costly_extensions(sight: Sight) -> Found | Cleared:
    """Extensions that take time of every statement, as they are set.

    Trigger, any of:

    * auto_explain.log_analyze with log_timing, for all statements: the clock is read for each node
      of each plan, also of statements that are not logged. PostgreSQL's documentation of
      auto_explain says that this can be extremely slow;
    * auto_explain.log_min_duration = 0: the plan of every statement is logged;
    * pg_stat_kcache is loaded: its author measured 285,000 instead of 696,000 transactions per
      second with many short statements (its issue 41);
    * pg_wait_sampling.profile_period below ``PERIOD_MS_MIN``: it reads the state of every session a
      hundred times as often as a sampler needs;
    * pg_stat_statements.max above ``STATEMENTS_MAX``: each read of the view, and each clean-up,
      goes through a file of all texts; its default is 5000, and ten times that is ours;
    * track_functions = all: each call of a function reads the clock.

    It costs something for the first three; the others are minor.
    """
    costly = [*_explain(sight), *_kcache(sight)]
    minor = [*_sampling(sight), *_statements(sight), *_functions(sight)]
    evidence = [measured_by for _, found in (*costly, *minor) for measured_by in found]
    if not evidence:
        return Cleared("no extension is set to take much time of every statement")
    return Found(
        sentence="; ".join(sentence for sentence, _ in (*costly, *minor)),
        severity="costs" if costly else "minor",
        confidence=0.7,
        evidence=evidence,
        advice="reset the setting, or unload the extension where its figures are not needed",
        commands=[f"ALTER SYSTEM RESET {each.name}" for each in evidence if sight.knows(each.name)],
    )


def _explain(sight: Sight) -> Iterator[tuple[str, list[Evidence]]]:
    if not sight.knows(f"{_EXPLAIN}.log_min_duration"):
        return
    least = sight.setting(f"{_EXPLAIN}.log_min_duration")
    rate = sight.setting(f"{_EXPLAIN}.sample_rate")
    if least.number < 0 or rate.number < 1:
        return
    analyze, timing = (sight.setting(f"{_EXPLAIN}.log_{n}") for n in ("analyze", "timing"))
    if analyze.is_on and timing.is_on:
        yield (
            "auto_explain reads the clock for each node of each plan",
            [measured(analyze.name, "on", "", "on"), measured(timing.name, "on", "", "on")],
        )
    if least.number == 0:
        yield (
            "auto_explain logs the plan of every statement",
            [measured(least.name, 0, "ms", "0")],
        )


def _kcache(sight: Sight) -> Iterator[tuple[str, list[Evidence]]]:
    name = "pg_stat_kcache.track"
    if sight.knows(name) and sight.setting(name).value != "none":
        yield (
            "pg_stat_kcache asks the kernel at the start and the end of every statement",
            [measured(name, sight.setting(name).value, "", "not none")],
        )


def _sampling(sight: Sight) -> Iterator[tuple[str, list[Evidence]]]:
    name = "pg_wait_sampling.profile_period"
    if sight.knows(name) and sight.setting(name).number < PERIOD_MS_MIN:
        period = sight.setting(name).number
        yield (
            f"pg_wait_sampling reads the state of every session every {period:g} ms",
            [measured(name, period, "ms", f"less than {PERIOD_MS_MIN}")],
        )


def _statements(sight: Sight) -> Iterator[tuple[str, list[Evidence]]]:
    name = "pg_stat_statements.max"
    if sight.knows(name) and sight.setting(name).number > STATEMENTS_MAX:
        most = sight.setting(name).number
        yield (
            f"pg_stat_statements keeps up to {most:,.0f} statements",
            [measured(name, most, "count", f"more than {STATEMENTS_MAX:,}")],
        )


def _functions(sight: Sight) -> Iterator[tuple[str, list[Evidence]]]:
    name = "track_functions"
    if sight.setting(name).value == "all":
        yield "track_functions times each call of a function", [measured(name, "all", "", "all")]


TRANSACTIONS_PER_S_MIN = 10.0
COSTLY_PER_S_MIN = 2500.0
_EVERYTHING = {
    "log_statement": ("all", "mod"),
    "log_min_duration_statement": ("0",),
    "log_min_duration_sample": ("0",),
    "log_duration": ("on",),
}


@rule(
    "logging-everything",
    looks=("server", "setting", "database"),
    covered_by=("costly-settings",),
    false_positives="a log that an audit demands, or that somebody turned on for an hour",
)
def logging_everything(sight: Sight) -> Found | Cleared:
    """Each statement is written to the server's log.

    Trigger: log_statement = all or mod, log_min_duration_statement or log_min_duration_sample = 0,
    or log_duration on, and at least ``TRANSACTIONS_PER_S_MIN`` transactions a second since the
    statistics began. Thresholds: 4 us of CPU time for a line is the calibration of the finding
    costly-settings, and below ten lines a second a log stays readable and small: a day is 100 MB.
    From ``COSTLY_PER_S_MIN`` a second on it takes a hundredth of a core and 25 GB a day.
    """
    logged = [n for n, values in _EVERYTHING.items() if sight.setting(n).value in values]
    transactions = sum(row["transactions"] or 0 for row in sight.rows("database"))
    server = sight.row("server")
    per_s = transactions / max(server["counters_s"] or server["uptime_s"], 1.0)
    evidence = [measured(name, sight.setting(name).value, "") for name in logged]
    bar = f"at least {TRANSACTIONS_PER_S_MIN:g}/s"
    evidence += [measured("transactions", per_s, "count/s", bar)]
    if not logged or per_s < TRANSACTIONS_PER_S_MIN:
        return Cleared("the log does not get a line for each of many statements", evidence)
    return Found(
        sentence=(
            f"{listed([f'{name} = {sight.setting(name).value}' for name in logged])}: each"
            " statement"
            f" of {figure(per_s)} transactions per second is written to the log"
        ),
        severity="costs" if per_s >= COSTLY_PER_S_MIN else "minor",
        confidence=0.8,
        evidence=evidence,
        commands=alter_system({name: DEFAULTS[name] for name in logged}),
        proposals=[
            proposed("reset-setting", "no line for each statement", {name: DEFAULTS[name]})
            for name in logged
        ],
    )


TIME_SHARE = 0.5
SESSIONS_MIN = 0.5
COUNTED_S_MIN = 600.0
_WHAT = {"exec_ms": "time", "wal_bytes": "WAL", "blocks": "blocks read and written"}


@rule(
    "heavy-statement",
    looks=("statement", "statement_info"),
    false_positives="a job that was run once and is over",
)
def heavy_statement(sight: Sight) -> Found | Cleared:
    """A kind of statement that makes most of the work.

    Trigger: statements of one shape take at least ``TIME_SHARE`` of the time of all statements,
    write that share of the WAL, or read and write that share of the blocks, by pg_stat_statements;
    and all statements together kept at least ``SESSIONS_MIN`` sessions at work on average since its
    counters began, ``COUNTED_S_MIN`` or more ago. Threshold: ours; what is done about any other
    statement changes less than half. It is minor: it says where to look first.
    """
    rows = sight.rows("statement")
    counted_s = sight.row("statement_info")["counters_s"]
    if not rows or (counted_s or 0.0) < COUNTED_S_MIN:
        raise Skip("no statement was counted, or the counters are too young")
    sessions = rows[0]["exec_ms_total"] / 1000 / counted_s
    bar = f"at least {percent(TIME_SHARE)}"
    found: dict[str, tuple[StatementFamily, float]] = {}
    for column, what in _WHAT.items():
        total = rows[0][f"{column}_total"] or 0.0
        most = max(shapes(sight), key=lambda each: getattr(each, column))
        if total > 0 and getattr(most, column) >= TIME_SHARE * total:
            found[what] = most, getattr(most, column) / total
    evidence = [measured("sessions at work, on average", sessions, "count",
                         f"at least {SESSIONS_MIN:g}")]  # fmt: skip
    for what, (shape, share) in found.items():
        evidence += [
            measured(f"share of the {what}", share, "share", bar),
            measured("statement", shape.text, ""),
        ]
    if not found or sessions < SESSIONS_MIN:
        return Cleared("no kind of statement makes most of the work", evidence)
    (what, (shape, share)), *_ = found.items()
    each_ms = shape.exec_ms / shape.calls
    return Found(
        sentence=(
            f"one statement makes {percent(share)} of the {what}, {figure(each_ms)} ms for each of"
            f" {figure(shape.calls)} calls: {shape.text}"
        ),
        severity="minor",
        confidence=0.8,
        evidence=evidence,
        advice="EXPLAIN (ANALYZE, BUFFERS, WAL) with its usual values, where it may be executed",
    )


EVICTIONS_H_MIN = 1.0


@rule(
    "evicted-statements",
    looks=("setting", "statement_info"),
    false_positives="a burst of different statements that is over",
)
def evicted_statements(sight: Sight) -> Found | Cleared:
    """pg_stat_statements has no room: it throws out statements again and again.

    Trigger: at least once an hour on average, over at least an hour. Each time it sorts all entries
    and drops those that are used least (a twentieth), with a lock that all statements wait for.
    Threshold: ours; a day of that has replaced all entries at least once. It is minor.
    """
    row = sight.row("statement_info")
    hours = (row["counters_s"] or 0.0) / 3600
    if hours < 1:
        raise Skip("its counters are younger than an hour")
    per_h = row["dealloc"] / hours
    evidence = [measured("evictions", per_h, "count/h", f"at least {EVICTIONS_H_MIN:g}")]
    if per_h < EVICTIONS_H_MIN:
        return Cleared("pg_stat_statements has room for the statements", evidence)
    return Found(
        sentence=(
            f"pg_stat_statements throws out statements {figure(per_h)} times an hour: there are"
            " more"
            f" than pg_stat_statements.max = {sight.setting('pg_stat_statements.max').value}"
        ),
        severity="minor",
        confidence=0.8,
        evidence=evidence,
        advice=(
            "see whether statements differ only in lists of values or names of temporary tables;"
            " raise pg_stat_statements.max (restart) where they do not"
        ),
    )
