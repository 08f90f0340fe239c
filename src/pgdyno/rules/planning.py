"""Planning and compiling of statements."""

from __future__ import annotations

from pgdyno.facts.client_sessions import SHORT_LIVED_MAX, transactions_per_connection
from pgdyno.facts.needless_statements import forgets_prepared
from pgdyno.facts.plans import (
    TimedChange,
    changes_jit,
    executed_ms,
    is_analyzed,
    planned_statements,
    planning_part,
    saved_share,
    timed_protocol,
    timed_settings,
)
from pgdyno.facts.setting_costs import (
    JIT_SHARE,
    below_default,
    compiled_statements_of,
    is_possible,
    loaded_share,
)
from pgdyno.facts.sight import Sight, Unseen, measured, proposed
from pgdyno.facts.situation import Situation
from pgdyno.facts.without import without_time
from pgdyno.numbers import counted, figure, listed, percent
from pgdyno.record import StatementCount
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.rules._cpu_uses import (
    PLAN_CPU_S,
    backend_cores,
    cpu_parts,
    cpu_uses,
    own_part,
    ratio_of_short,
    ratio_without,
    response_share,
    unexplained_part,
)
from pgdyno.rules._pools import WORTHWHILE_RATIO
from pgdyno.rules._statement_families import shapes
from pgdyno.rules._timed_changes import (
    proposals_of,
    ratio_with,
    refuse_if_undecided,
    saved_evidence,
    settings_title,
    time_evidence,
    weight_of,
)
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change
from pgdyno.spec.front import PREPARE_THRESHOLD_DEFAULT
from pgdyno.spec.server_settings import DEFAULTS
from pgdyno.spec.sql_text import shortened
from pgdyno.stats.prediction import Prediction

COST_SHARE = 0.1
OTHER_PLANS_SHARE = 0.5
"""Part of what preparing saves by other plans from which on planning is not its reason. Another
plan may be the better one for the values tried only: at least the planning is saved."""


@rule(
    "parse-plan",
    of_clients=True,
    false_positives="statements whose execution takes long compared with their plan",
)
def parse_plan(s: Situation) -> Found | Cleared:
    """Parsing and planning: statements are sent in a way that plans them each time.

    Trigger: the load sends statements with the simple or the extended protocol, or the driver of a
    web front end keeps none prepared, and that takes at least ``COST_SHARE`` of the response time.

    On a server that pgdyno started it is measured: the load's statements are executed beside it as
    they are and prepared. On any other the server's planning time of each statement (EXPLAIN) is
    compared with the time that the statement takes; without parsing. Where executions do not show
    what EXPLAIN tells, nothing is cleared. Where the plans were not looked at, 6 us a statement are
    taken, 10 with the simple protocol (select-only took 18 us of CPU time prepared, 24 extended, 28
    simple; see ``_cpu_uses``): statements of many tables take a thousand times as long to plan, so
    that nothing is cleared by it.

    Where prepared statements have other plans, and these save most of the time
    (``OTHER_PLANS_SHARE``), the finding says so: of a sort of 6,000 rows that was written to disk,
    planning took 2 %, and the plan for any values a third less.
    """
    if not s.protocol:
        raise Skip("how the load sends its statements was not recorded")
    if s.protocol not in PLAN_CPU_S:
        return Cleared("statements are prepared", [s.evidence("protocol", s.protocol, "")])
    timed, part = timed_protocol(s), planning_part(s)
    explained = (part or 0.0) * s.budget.own_share(*cpu_parts(s))
    if timed is not None:
        part, share = timed.saved, saved_share(s, timed)
    else:
        share = response_share(s, "parse-plan") if part is None else explained
    is_measured = part is not None
    evidence = _planning_evidence(s, share, is_measured=is_measured)
    if share < COST_SHARE:
        if not is_measured:
            raise Skip("the time of planning was not measured")
        if explained >= COST_SHARE:
            raise Skip(
                f"planning takes {percent(explained)} of the time by EXPLAIN, and the statements"
                " take as long prepared; pgdyno compare --vary load.protocol=prepared tells"
            )
        if timed is not None:
            refuse_if_undecided(timed, "preparing them")
        return Cleared(f"parsing and planning take {percent(share)} of the time", evidence)
    part = cpu_uses(s).get("parse-plan", 0.0) if part is None else part
    other = 0.0 if timed is None else _saved_by_other_plans(s, timed)
    ratio = ratio_without(s, part) if timed is None else ratio_with(s, timed)
    if other >= OTHER_PLANS_SHARE:
        sure = ratio_without(s, (1.0 - other) * part)
        ratio = Prediction(ratio, min(ratio.low, sure.low), ratio.high)
    proposals = _prepared(s, ratio)
    return Found(
        sentence=(
            f"{_how(s)} statements do not have the plans of prepared ones, with which the server"
            f" works {percent(part)} less"
            if other >= OTHER_PLANS_SHARE
            else f"{_how(s)} each statement is parsed and planned again, about {percent(part)} of"
            " the time that the server works on it"
        ),
        parts=cpu_parts(s),
        share=share * s.budget.begun,
        gain=ratio,
        confidence=0.9 if is_measured else 0.6,
        evidence=evidence,
        proposals=proposals,
        advice="" if proposals else _advice(s),
    )


def _saved_by_other_plans(s: Situation, timed: TimedChange) -> float:
    """Return the part of what preparing saves, 0 to 1, that is not planning: the time of statements
    whose plan becomes another one, beyond that of their planning."""
    planning_ms = {
        each.total.place: each.plan.planning_ms or 0.0
        for each in planned_statements(s)
        if each.plan is not None
    }
    other_ms = sum(
        max(0.0, each.saved_ms - each.per_transaction * planning_ms.get(each.total.place, 0.0))
        for each in timed.statements
        if each.is_replanned
    )
    return min(1.0, other_ms / timed.saved_ms) if timed.saved_ms > 0 else 0.0


def _planning_evidence(s: Situation, share: float, *, is_measured: bool) -> list[Evidence]:
    name = "parsing and planning / response time"
    found = [
        s.evidence("protocol", s.protocol, ""),
        s.evidence("statements", s.statements_per_s, "per s"),
        _share_evidence(s, name if is_measured else f"{name} (estimate)", share),
    ]
    if (timed := timed_protocol(s)) is not None:
        found += time_evidence(s, timed.statements[:1], "time of it prepared")
    return found


def _advice(s: Situation) -> str:
    advice = "let the application use prepared statements"
    return f"{advice}, and keep them: {why}" if (why := _why_not_kept(s)) else advice


def _why_not_kept(s: Situation) -> str:
    """Return why a session would prepare its statements again and again; '' if it would not."""
    if forgets_prepared(s):
        return "DISCARD forgets them"
    each = transactions_per_connection(s)
    if each is not None and each <= SHORT_LIVED_MAX:
        return f"a connection lasts for {counted(each, 'transaction', 'transactions')}"
    return ""


def _how(s: Situation) -> str:
    if s.front is None:
        return f"with the {s.protocol} protocol"
    return "the application's driver keeps no statement prepared (prepareThreshold = 0):"


def _prepared(s: Situation, ratio: float) -> list[Proposal]:
    if ratio < WORTHWHILE_RATIO or _why_not_kept(s):
        return []
    of_driver = {"front.prepare_threshold": str(PREPARE_THRESHOLD_DEFAULT)}
    change = Change(spec=of_driver if s.front else {"load.protocol": "prepared"})
    why = "a session would plan each of its statements once"
    return [
        Proposal(
            remedy_id="prepared-statements",
            change=change,
            predicted_ratio=ratio,
            why=why,
            specific=True,
        )
    ]


_CODES = ("26000", "42P05")
ADVICE = (
    "let clients prepare nothing behind this pooler (-M extended or simple here; prepareThreshold=0"
    " of pgJDBC, statement_cache_size=0 of asyncpg), or raise max_prepared_statements of PgBouncer,"
    " from 1.21 on"
)


@rule(
    "unkept-statements",
    of_clients=True,
    of_refusals=True,
    false_positives="none known: a connection with a session of its own keeps what it prepared",
)
def unkept_statements(s: Situation) -> Found | Cleared:
    """Prepared statements behind a pooler that does not keep them: statements fail because they
    were prepared in another session.

    A pooler in transaction mode lends a session to one client after the other. A statement that a
    client has prepared in one session is missing in the next one (26000), or its name is taken
    there already (42P05). PgBouncer keeps them apart since 1.21, with max_prepared_statements,
    which is 0 by default before 1.24.

    Trigger: a statement failed so that had been prepared on the same connection: the load engine
    knows what it has prepared on which connection.

    Threshold: none; one such failure is certain, because a connection of its own has all that was
    prepared on it. Calibrated: with PgBouncer 1.18 in transaction mode and 8 clients for 2
    sessions, 9 of 10 transactions failed, and none in session mode.

    Look-alikes: a script that itself deallocates, or prepares twice under one name, fails with the
    same codes without a pooler; the engine's own statements are not concerned.
    """
    lost = {
        code: sum(e.count for e in s.run.errors(s.slice_ids) if e.sqlstate == code and e.advice)
        for code in _CODES
    }
    count, ledger = sum(lost.values()), s.run.ledger(s.slice_ids)
    ended = ledger.done + ledger.failed
    evidence = [
        s.evidence(
            f"statements that failed with {code} though they were prepared", n, "count", "any"
        )
        for code, n in lost.items()
    ]
    if not count:
        return Cleared("no statement failed because another session had prepared it", evidence)
    share = min(1.0, ledger.failed / ended) if ended else 1.0
    failures = counted(float(count), "statement failed", "statements failed")
    name = "the pooler" if s.pooler is None else s.pooler.name
    return Found(
        sentence=(
            f"{failures}, and {percent(share)} of the transactions, because another session had"
            f" prepared them: {name} lends its sessions for transactions and does not keep prepared"
            " statements apart"
        ),
        share=share,
        removable_share=share,
        confidence=0.95,
        evidence=evidence,
        advice=ADVICE,
    )


JIT_SHOWN = 3
NOT_COMPILED = "statements would be executed without being compiled first"


@rule(
    "jit",
    false_positives=(
        "long statements, for which compilation pays; where it is not counted, statements that"
        " compute for long with few rows, as functions do"
    ),
)
def jit(s: Situation) -> Found | Cleared:
    """JIT compilation of short statements: compiling takes longer than executing.

    Trigger: compiling takes at least ``COST_SHARE`` of the response time: by executions beside the
    load with and without it, by pg_stat_statements, or by one execution of each statement that was
    timed (EXPLAIN ANALYZE). Where none of these is known: what statements take of the CPU beyond
    all that is known of them does, and sessions have the compiler loaded, or jit_above_cost is
    below its default (see ``facts.setting_costs``, which also has the thresholds and their source).
    """
    timed = next((each for each in timed_settings(s) if changes_jit(each)), None)
    if timed is not None:
        return _timed(s, timed)
    if not is_possible(s):
        off = "jit is off" if s.can("jit") else "the server was built or installed without JIT"
        return Cleared(off, [s.evidence("jit", s.settings.text("jit"), "")])
    compiled = compiled_statements_of(s)
    if compiled is not None:
        return _counted(s, compiled)
    if is_analyzed(s):
        return _of_plans(s)
    if loaded_share(s) is None and not below_default(s):
        raise Skip("whether sessions compile statements is seen only on the server's machine")
    return _by_elimination(s)


def _timed(s: Situation, timed: TimedChange) -> Found | Cleared:
    """Judge by the load's statements, executed beside it with and without JIT as it is set."""
    share, title = saved_share(s, timed), settings_title(timed)
    evidence = [
        saved_evidence(s, timed, title, COST_SHARE),
        *time_evidence(s, timed.statements[:JIT_SHOWN], f"with {title}"),
    ]
    refuse_if_undecided(timed, title)
    if share < COST_SHARE:
        return Cleared("without JIT as it is set statements take as long", evidence)
    worst = timed.statements[0]
    remedy = "jit-off" if timed.change.settings.get("jit") == "off" else "reset-setting"
    return Found(
        sentence=(
            f"compiling (JIT) makes a statement take {figure(worst.ms)} ms instead of"
            f" {figure(worst.changed_ms)}: {shortened(worst.total.statement)}"
        ),
        confidence=0.95,
        evidence=evidence,
        proposals=proposals_of(s, [timed], remedy, NOT_COMPILED),
        **weight_of(s, timed),
    )


def _of_plans(s: Situation) -> Found | Cleared:
    """Judge by the time of compiling in one execution of the load's statements."""
    compiled = [each for each in planned_statements(s) if each.plan and each.plan.is_compiled]
    evidence = [s.evidence("statements that are compiled", len(compiled), "count", "any")]
    if not compiled:
        return Cleared("no statement of the load is compiled", evidence)
    compiling_ms = {each.total.place: each.plan.compiling_ms for each in compiled if each.plan}
    timed = without_time(s, executed_ms(s), compiling_ms)
    share, worst = saved_share(s, timed), timed.statements[0]
    evidence += [
        _share_evidence(s, "compilation / response time", share),
        *time_evidence(s, timed.statements[:JIT_SHOWN], "of it without compilation"),
    ]
    if share < COST_SHARE:
        return Cleared("compiling takes a small part of the time of statements", evidence)
    return Found(
        sentence=(
            f"compiling (JIT) takes {figure(compiling_ms[worst.total.place])} of the"
            f" {figure(worst.ms)} ms of a statement: {shortened(worst.total.statement)}"
        ),
        confidence=0.9,
        evidence=evidence,
        proposals=_proposals(s, ratio_with(s, timed)),
        **weight_of(s, timed),
    )


def _counted(s: Situation, compiled: list[StatementCount]) -> Found | Cleared:
    share = response_share(s, "jit")
    evidence = [_share_evidence(s, "compilation / response time", share)]
    for each in compiled[:JIT_SHOWN]:
        part = min(1.0, each.compiled_ms / each.exec_ms)
        evidence.append(s.evidence("compilation / time of the statement", part, "share"))
        evidence.append(s.evidence("statement", each.statement, ""))
    if share < COST_SHARE:
        return Cleared("compiling takes a small part of the time of statements", evidence)
    return Found(
        sentence=(
            f"compiling statements (JIT) takes about {percent(cpu_uses(s)['jit'])} of the CPU time"
            " of the sessions"
        ),
        parts=cpu_parts(s),
        share=share * s.budget.begun,
        gain=ratio_without(s, cpu_uses(s)["jit"]),
        confidence=0.9,
        evidence=evidence,
        proposals=_proposals(s, ratio_without(s, own_part(s, "jit"))),
    )


def _by_elimination(s: Situation) -> Found | Cleared:
    share = response_share(s, "jit")
    each_ms = 1000 * backend_cores(s) / s.statements_per_s if s.statements_per_s else 0.0
    evidence = [
        s.evidence("CPU time of a statement", each_ms, "ms"),
        _share_evidence(s, "compilation / response time (estimate)", share),
        s.evidence("busiest sessions with the compiler loaded", loaded_share(s), "share"),
        s.evidence(
            "jit_above_cost",
            s.settings.number("jit_above_cost"),
            "",
            f"below {DEFAULTS['jit_above_cost']}",
        ),
    ]
    if share < COST_SHARE:
        if unexplained_part(s) * s.budget.own_share(*cpu_parts(s)) >= COST_SHARE:
            raise Skip("some statements may be compiled, of which only pg_stat_statements tells")
        return Cleared("no statement takes the CPU time of a compilation", evidence)
    return Found(
        sentence=(
            f"a statement takes {figure(each_ms)} ms of CPU time, about"
            f" {percent(cpu_uses(s)['jit'])} of it to compile it (JIT)"
        ),
        parts=cpu_parts(s),
        share=share * s.budget.begun,
        gain=ratio_without(s, cpu_uses(s)["jit"]),
        confidence=0.8 if loaded_share(s) and below_default(s) else 0.6,
        evidence=evidence,
        # STATEMENT_CPU_S of each statement is not compilation, however small a part that is.
        proposals=_proposals(s, ratio_of_short(s, own_part(s, "jit"))),
    )


def _share_evidence(s: Situation, name: str, share: float) -> Evidence:
    return s.evidence(name, share, "share", f"at least {percent(COST_SHARE)}")


def _proposals(s: Situation, ratio: Prediction) -> list[Proposal]:
    if ratio < WORTHWHILE_RATIO:
        return []
    why = NOT_COMPILED
    proposals = [
        Proposal(
            remedy_id="jit-off",
            change=Change(settings={"jit": "off"}),
            predicted_ratio=ratio,
            why=why,
            specific=True,
        )
    ]
    if below_default(s):
        names = ("jit_above_cost", "jit_inline_above_cost", "jit_optimize_above_cost")
        low = {
            name: DEFAULTS[name]
            for name in names
            if 0 <= (s.settings.number(name) or 0.0) < float(DEFAULTS[name])
            and s.settings.text(name) is not None
        }
        proposals.append(
            Proposal(
                remedy_id="reset-setting",
                change=Change(settings=low),
                predicted_ratio=ratio,
                why=why,
                specific=True,
            )
        )
    return proposals


JIT_MS_MIN = 1000.0
COMPILED_STATEMENTS_SHOWN = 5


@rule(
    "compiled-statements",
    looks=("setting", "statement"),
    covered_by=("jit",),
    false_positives="long reports beside it that gain from being compiled",
)
def compiled_statements(sight: Sight) -> Found | Cleared:
    """Statements that take longer for being compiled (JIT) than that can save.

    Trigger: compiling took at least ``JIT_SHARE`` of the time of statements of one shape, and
    ``JIT_MS_MIN`` in all, by pg_stat_statements (from PostgreSQL 15). Threshold: ours; what
    compiling saves is a part of the time of expressions and tuples, which is less than this of most
    statements. pgtune and pg_gather just turn JIT off.
    """
    jit = sight.setting("jit")
    if not jit.is_on:
        return Cleared("jit is off", [measured("jit", jit.value, "")])
    known = [each for each in shapes(sight) if each.jit_ms is not None]
    if not known and shapes(sight):
        raise Unseen(
            "the time of compiling statements (JIT)",
            "this version of pg_stat_statements does not count it",
            "PostgreSQL 15 or newer, and ALTER EXTENSION pg_stat_statements UPDATE",
        )
    bar = f"at least {percent(JIT_SHARE)}"
    found = [s for s in known if s.compiled_ms >= max(JIT_MS_MIN, JIT_SHARE * s.exec_ms)]
    found.sort(key=lambda each: -each.compiled_ms)
    if not found:
        return Cleared("compiling takes a small part of the time of statements")
    worst = found[0]
    return Found(
        sentence=(
            f"compiling (JIT) took {percent(worst.compiled_ms / worst.exec_ms)} of the time of a"
            f" statement of {figure(worst.exec_ms / worst.calls)} ms: {worst.text}"
        ),
        severity="costs",
        confidence=0.8,
        evidence=[
            item
            for each in found[:COMPILED_STATEMENTS_SHOWN]
            for item in (
                measured("time of compiling", each.compiled_ms / each.exec_ms, "share", bar),
                measured("time of a call", each.exec_ms / each.calls, "ms"),
                measured("statement", each.text, ""),
            )
        ],
        advice="turn jit off, or raise jit_above_cost beyond the cost of these statements",
        commands=["ALTER SYSTEM SET jit = off", "SELECT pg_reload_conf()"],
        proposals=[proposed("jit-off", "statements are not compiled", {"jit": "off"})],
    )


_FOR_ALL = ("configuration file", "command line", "environment variable", "global")


@rule(
    "planner-switches",
    looks=("setting",),
    false_positives="a server for one application, measured with and without it",
)
def planner_switches(sight: Sight) -> Found | Cleared:
    """Kinds of plans turned off for the whole server.

    Trigger: a setting enable_… that is on by default is off in the configuration. Threshold: none;
    PostgreSQL's documentation ("Query Planning") calls them a temporary way to find out about a
    plan. It is minor: it may be right for the statements that it was made for.
    """
    off = [
        each
        for each in sight.settings
        if each.name.startswith("enable_") and each.boot == "on" and not each.is_on
        and each.source in _FOR_ALL
    ]  # fmt: skip
    if not off:
        return Cleared("no kind of plan is turned off for the whole server")
    names = listed([each.name for each in off])
    is_off = "is off" if len(off) == 1 else "are off"
    return Found(
        sentence=f"{names} {is_off} for all statements of the server",
        severity="minor",
        confidence=0.7,
        evidence=[measured(each.name, each.value, "", "off") for each in off],
        advice="turn it off for the statement or the role that needs it; see why its plan is wrong",
        commands=[f"ALTER SYSTEM RESET {each.name}" for each in off],
    )
