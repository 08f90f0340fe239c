"""The parts that results of several commands share, and the result of run; from run files."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from pgdyno import numbers
from pgdyno._engine import Histogram
from pgdyno.dimension import fields_with
from pgdyno.facts.budget import part_words
from pgdyno.facts.costliest import costliest
from pgdyno.facts.course import course_of
from pgdyno.facts.failures import FailedTransactions, failures
from pgdyno.facts.groups import GroupAccount, group_accounts, open_loop_sentence
from pgdyno.facts.periods import too_short
from pgdyno.facts.scaling import scaling_of
from pgdyno.record import Distribution, Ledger, RunFile, throughput_tps
from pgdyno.record.finding import Finding
from pgdyno.record.incidents import incidents
from pgdyno.record.latencies import ConnectKind, ScriptKind
from pgdyno.results import budget, common
from pgdyno.results import run as results
from pgdyno.results.run_parts import CostliestStatement
from pgdyno.spec import Change
from pgdyno.spec.disk import emulated_in_words
from pgdyno.stats import POINTS_MIN, PairedEffect, steady_from, stops_in
from pgdyno.trial._parts import entities_of, governor_of, statements_of, tpcc_of, vacuums_of
from pgdyno.trial.trust import distrust

if TYPE_CHECKING:
    from pgdyno.diagnose import Diagnosis, NamedPart, StatementTimeBudget
    from pgdyno.facts.unusual import JudgedSetting

LATENCY_PARTS: tuple[ScriptKind, ...] = (
    "response", "wait", "client_lag", "pool_wait", "connect", "service",
)  # fmt: skip
CONNECT_PHASES: tuple[ConnectKind, ...] = ("tcp", "tls", "auth", "ready", "total")
_WHOLE_INTERVAL_MS = 900
_COSTLIEST_UNKNOWN = (
    "not known: no statement was timed, counted or seen; pg_stat_statements and the rights of"
    " pg_monitor would show them"
)


def run_result(
    run: RunFile, slice_ids: list[int], diagnosis: Diagnosis | None, refused: Sequence[Finding] = ()
) -> results.RunResult:
    """Return the result of ``pgdyno run``; without a diagnosis it has no verdict, and the findings
    are those on refused clients (``refused``).

    Its figures are over ``slice_ids``, except the first ledger, which is over the whole run; the
    ledgers of the groups add up to the second one.
    """
    findings = diagnosis.findings if diagnosis else refused
    course = course_of(run, slice_ids)
    optional = {
        "governor": governor_of(run),
        "server_statements": statements_of(run, slice_ids),
        "tpcc_like": tpcc_of(run, slice_ids),
    }
    return results.RunResult(
        **dict(head(run, findings)),
        **{name: part for name, part in optional.items() if part},
        verdict=_verdict(run, slice_ids, diagnosis),
        failures=failures_of(failures(run, slice_ids)),
        ledger=whole_ledger(run),
        ledger_measured=_columns(run.ledger(slice_ids), "measured"),
        throughput_tps=round(throughput_tps(run, slice_ids), 2),
        steadiness=steadiness(run, slice_ids).sentence,
        throughput_over_time=course.to_json(),
        latency_over_time=course.latency_json(),
        throughput_by_clients=scaling.to_json() if (scaling := scaling_of(run)) else None,
        latency_ms=_latencies(run, slice_ids),
        latency_budget=budget_of(diagnosis) if diagnosis else None,
        groups=tuple(_group(run, slice_ids, each) for each in group_accounts(run, slice_ids)),
        statements=tuple(
            results.Statement(
                group=row.client_group,
                script=row.script,
                statement=row.statement,
                done=row.done,
                failed=row.failed,
                service_ms=latency(row.service),
                first_byte_ms=latency(row.first_byte) if row.first_byte else None,
                untouched=row.untouched,
            )
            for row in run.statements(slice_ids)
        ),
        errors=error_counts(run),
        generator=generator(run, slice_ids),
        findings=tuple(findings),
        vacuum=vacuums_of(run, slice_ids),
        entity_resolution=entities_of(run, slice_ids),
        costliest=costliest_of(run, slice_ids),
        unusual_settings=unusual_settings_of(diagnosis.settings if diagnosis else None),
    )


def unusual_settings_of(
    judged: Sequence[JudgedSetting] | None,
) -> tuple[common.UnusualSetting, ...] | None:
    """Return the settings that are not at their built-in value, as a diagnosis judged them."""
    return None if judged is None else tuple(map(_unusual_setting, judged))


def _unusual_setting(each: JudgedSetting) -> common.UnusualSetting:
    setting, share = each.setting, each.saved_share
    return common.UnusualSetting(
        setting=setting.name,
        value=setting.value,
        built_in=setting.reset,
        source=setting.source,
        judged=_how_judged(each),
        saved_share=None if share is None else numbers.rounded(share),
        effect=None,
        reset_with=each.tried_with,
        finding=each.finding,
        sentence=_judged_words(each),
    )


def _how_judged(each: JudgedSetting) -> common.Judged:
    if each.saved_share is not None:
        return "beside the load"
    return "by a finding" if each.finding else "not"


def _judged_words(each: JudgedSetting) -> str:
    if each.saved_share is None:
        return f"judged by {each.finding}" if each.finding else "not tried"
    if each.is_slower:
        return "tried beside the load: statements take longer with the built-in value"
    with_others = f" with {len(each.tried_with)} others" if each.tried_with else ""
    saved = numbers.percent(each.saved_share)
    return f"tried beside the load{with_others}: saves {saved} of the response time"


def error_counts(run: RunFile) -> tuple[common.ErrorCount, ...]:
    """Return the errors by SQLSTATE and position in the script, the most frequent first."""
    return tuple(
        common.ErrorCount.model_validate(row, from_attributes=True) for row in run.errors()
    )


def costliest_of(run: RunFile, slice_ids: Collection[int]) -> CostliestStatement:
    """Return the statement that takes the most time, or the means of finding it out."""
    found = costliest(run, slice_ids)
    if found is None:
        unknown = dict.fromkeys(CostliestStatement.model_fields)
        return CostliestStatement.model_validate({**unknown, "sentence": _COSTLIEST_UNKNOWN})
    rows = (found.rows_read, found.rows_returned)
    read, returned = (None if each is None else numbers.rounded(each) for each in rows)
    return CostliestStatement(
        statement=found.statement,
        share=numbers.rounded(found.share),
        measure=found.measure,
        rows_read=read,
        rows_returned=returned,
        plan_part=None if found.part is None else found.part.name,
        plan_part_share=None if found.part is None else numbers.rounded(found.part.share),
        sentence=found.sentence,
    )


def _verdict(run: RunFile, slice_ids: Sequence[int], diagnosis: Diagnosis | None) -> common.Verdict:
    """Return the verdict, or the reason why a void slice or a short run has none."""
    if diagnosis is not None:
        return limit_of(diagnosis)
    void = next((why for number in slice_ids if (why := run.slice(number).void)), None)
    reason = void or no_database(run) or too_short(run, list(slice_ids)) or "nothing was measured"
    return common.Verdict(finding=None, sentence=f"no verdict: {reason}")


def no_database(run: RunFile) -> str | None:
    """Return why there is no diagnosis of a web server's load without its database, or None."""
    if run.run.server.get("kind") != "none":
        return None
    return "no database server was named, and the diagnosis is of one (--control names it)"


def limit_of(diagnosis: Diagnosis) -> common.Verdict:
    """Return the verdict of a diagnosis."""
    return common.Verdict.model_validate(diagnosis.verdict.to_json())


def budget_of(diagnosis: Diagnosis) -> budget.LatencyBudget | None:
    """Return the latency budget of a diagnosis; None if no transaction was done."""
    if diagnosis.budget is None:
        return None
    response_ms = diagnosis.budget.response_ms
    return budget.LatencyBudget(
        response_ms=_figure(response_ms),
        parts=tuple(_budget_part(part) for part in diagnosis.parts),
        unexplained_share=numbers.rounded(sum(part.unexplained for part in diagnosis.parts)),
        statements=tuple(_statement_budget(each, response_ms) for each in diagnosis.statements),
        missing=tuple(diagnosis.missing),
    )


def _budget_part(part: NamedPart) -> budget.BudgetPart:
    return budget.BudgetPart(
        part=part.part,
        words=part_words(part.part),
        ms=_figure(part.ms),
        share=numbers.rounded(part.share),
        status=part.status,
        findings=part.findings,
        wait_events=tuple(
            budget.BudgetEvent(event=event, share=numbers.rounded(share))
            for event, share in part.events
        ),
    )


def _statement_budget(each: StatementTimeBudget, response_ms: float) -> budget.StatementBudget:
    return budget.StatementBudget(
        group=each.total.client_group,
        script=each.total.script,
        statement=each.total.statement,
        executions_per_transaction=numbers.rounded(each.executions_per_transaction),
        ms=_figure(each.ms),
        share=numbers.rounded(each.ms * each.executions_per_transaction / response_ms),
        parts=tuple(
            budget.StatementPart(
                part=part,
                words=part_words(part),
                ms=_figure(ms),
                wait_events=tuple(each.events.get(part, ())),
            )
            for part, ms in each.parts_ms.items()
            if ms > 0
        ),
    )


def _figure(ms: float) -> float:
    """Return milliseconds rounded to microseconds, small ones to three digits."""
    return round(ms, 3) if ms >= 1 else float(f"{ms:.3g}")


def head(
    run: RunFile, findings: Sequence[Finding], *, no_verdict: str | None = None
) -> common.Head:
    """Return the first members of a result: its origin, and reasons to distrust it.

    ``no_verdict`` is the reason why a trial has no verdict.
    """
    reasons = [*([no_verdict] if no_verdict else []), *distrust(run, findings)]
    return common.Head(
        schema_version=common.SCHEMA_VERSION,
        run_file=str(run.path),
        database=run.run.server.get("database"),
        trustworthy=not reasons,
        distrust=tuple(reasons),
        incidents=incidents(run),
        emulated=emulated_disks(run),
    )


def emulated_disks(run: RunFile) -> str | None:
    """Describe the emulated disks that a run's slices were measured on; ``None`` without any."""
    changes = {json.dumps(part.change): part.change for part in run.slices()}
    specs = (fields_with(run.run.spec, Change.from_json(change)) for change in changes.values())
    return emulated_in_words([run.run.spec, *specs])


def failures_of(failed: FailedTransactions) -> common.Failures:
    """Return failures as results have them."""
    return common.Failures.model_validate(failed.to_json())


def _latencies(run: RunFile, slice_ids: list[int], group: str | None = None) -> results.Latencies:
    return results.Latencies(
        **{kind: latency(run.histogram(kind, slice_ids, group=group)) for kind in LATENCY_PARTS}
    )


def _group(run: RunFile, slice_ids: list[int], account: GroupAccount) -> results.Group:
    """Return the figures and the ledger of a client group over ``slice_ids``."""
    asked_tps = account.asked_tps
    return results.Group(
        group=account.name,
        clients=account.clients,
        clients_connected=account.clients_connected,
        loop="idle" if account.idle else "closed" if account.arrival is None else "open",
        asked_tps=None if asked_tps is None else round(asked_tps, 2),
        throughput_tps=round(account.done_tps, 2),
        rate_held=account.rate_held,
        waiting_at_end=account.waiting,
        sentence=open_loop_sentence(account),
        ledger=_columns(account.ledger, "measured"),
        latency_ms=_latencies(run, slice_ids, account.name),
        connections=_connections(run, slice_ids, account),
        http=_requests(run, slice_ids, account.name),
    )


def _requests(run: RunFile, slice_ids: list[int], group: str) -> results.Requests | None:
    for total in run.http_totals(slice_ids):
        if total.client_group == group:
            counts = {name: getattr(total, name) for name in results.Requests.model_fields}
            return results.Requests(**counts)
    return None


def _connections(run: RunFile, slice_ids: list[int], account: GroupAccount) -> results.Connections:
    connects = account.connects
    return results.Connections(
        open=connects.open,
        connects=connects.made,
        reconnects=connects.again,
        connect_failures=connects.failed,
        connect_ms=results.ConnectLatencies(
            **{
                phase: latency(run.histogram(phase, slice_ids, group=account.name))
                for phase in CONNECT_PHASES
            }
        ),
    )


class Steadiness(Struct, frozen=True):
    """Steadiness of the throughput of a period, with the second from which on it is steady."""

    steady: bool | None
    """None: the period is too short to tell."""
    sentence: str


def steadiness(run: RunFile, slice_ids: list[int]) -> Steadiness:
    """Return whether and when the throughput became steady.

    Uses whole seconds only; the first and last intervals of a slice may be shorter.
    """
    whole = [i for i in run.intervals(slice_ids) if i.duration_ms >= _WHOLE_INTERVAL_MS]
    return steadiness_of([interval.throughput_tps for interval in whole])


def steadiness_of(tps: Sequence[float]) -> Steadiness:
    """Return whether and when the throughput of whole seconds became steady."""
    if len(tps) < POINTS_MIN:
        short = f"too short to tell: {len(tps)} s measured, {POINTS_MIN} are needed"
        return Steadiness(None, short)
    start = steady_from(tps)
    if start is None:
        return Steadiness(False, "never steady")
    sentence = f"steady after the first {start} s" if start else "steady from the start"
    stopped = stops_in(tps[start:])
    if stopped:
        sentence += f", with {stopped} s below a tenth of its level"
    return Steadiness(True, sentence)


def whole_ledger(run: RunFile) -> common.LedgerColumns:
    """Return the ledger of the whole run, including ramp and trials."""
    return _columns(run.ledger(), "run")


def _columns(ledger: Ledger, over: Literal["run", "measured"]) -> common.LedgerColumns:
    """Return the columns, with the period that they were counted over."""
    columns = (name for name in common.LedgerColumns.model_fields if name != "over")
    return common.LedgerColumns(
        over=over, **{column: int(getattr(ledger, column)) for column in columns}
    )


def latency(histogram: Histogram) -> common.Latency:
    """Return percentiles, maximum and mean in milliseconds, and the number of samples.

    A percentile with too few samples is null.
    """
    return common.Latency.model_validate(Distribution.of(histogram).to_json())


def generator(run: RunFile, slice_ids: list[int]) -> results.Generator:
    """Return the load generator's audit of itself over the slices."""
    rows = run.samples("metric_generator", slice_ids)
    late = Histogram()
    for row in rows:
        late.add_encoded(row["send_late_hist"])
    cpu_us = sum(row["cpu_user_us"] + row["cpu_system_us"] for row in rows)
    stalls_us = [row["loop_stall_us_max"] for row in rows]
    done = max(run.ledger(slice_ids).done, 1)
    return results.Generator(
        **{key: run.run.engine.get(key) for key in ("reactor", "reactor_why", "cpus", "nice")},
        threads=run.generator(slice_ids).threads,
        cpu_us_per_transaction=round(cpu_us / done, 2),
        send_late_ms_p99=_ms(late.percentile(99)),
        loop_stall_ms_max=round(max(stalls_us, default=0) / 1000, 3),
        run_queue_delay_ms=round(sum(row["run_queue_delay_us"] for row in rows) / 1000, 1),
    )


def effect_of(effect: PairedEffect) -> common.Effect:
    """Return a paired effect as results have it."""
    return common.Effect(
        throughput_ratio=numbers.rounded(effect.ratio), ci95=ci95(effect), pairs=effect.pairs
    )


def latency_effect_of(effect: PairedEffect) -> common.LatencyEffect:
    """Return an effect on the response time as results have it."""
    return common.LatencyEffect(ratio=numbers.rounded(effect.ratio), ci95=ci95(effect))


def ci95(bounds: PairedEffect) -> tuple[float, float]:
    """Return the rounded 95 % interval of a ratio."""
    return numbers.rounded(bounds.lo), numbers.rounded(bounds.hi)


def _ms(ns: float) -> float:
    return round(ns / 1e6, 3)
