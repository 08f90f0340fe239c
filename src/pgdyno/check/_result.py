"""The result of a check, from its run file and its findings: the load of others, the findings with
commands that prove their proposals (each a ``pgdyno compare``), and the subjects not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from pgdyno import numbers
from pgdyno.check._judging import Judgement
from pgdyno.check._write_probe import LOOK
from pgdyno.diagnose import (
    HELD,
    LIGHT_SESSIONS,
    UNEXPLAINED,
    Diagnosis,
    Lack,
    SeenStatement,
    observed,
)
from pgdyno.dimension import title_of
from pgdyno.escaping import shell_line
from pgdyno.facts.autovacuum import recorded_options
from pgdyno.facts.sight import NOT_PREDICTED, Sight, Unseen
from pgdyno.probe import OTHER_SESSIONS, TRACKED
from pgdyno.record import RunFile
from pgdyno.record.events import ProbeState
from pgdyno.record.finding import Finding, Proposal, ProvingCommand, Severity
from pgdyno.record.write_probe import WriteProbe, write_probe_of
from pgdyno.remedy import Circumstances, assess, catalogue
from pgdyno.remedy.circumstances import circumstances_recorded
from pgdyno.remedy.lines import Options, compare_words
from pgdyno.results.check import (
    BusyStatement,
    CheckedServer,
    CheckResult,
    NotChecked,
    ObservedLoad,
    WaitEvent,
    worst_first,
)
from pgdyno.server.extensions import STATEMENTS, to_create
from pgdyno.spec import Change
from pgdyno.spec.durability import severity
from pgdyno.spec.sql_text import quoted
from pgdyno.trial.result import costliest_of

_GRANT = "GRANT pg_monitor TO {role}"
_ON = "ALTER SYSTEM SET {0} = on; SELECT pg_reload_conf()"
_ALLOW = {
    OTHER_SESSIONS: _GRANT,
    STATEMENTS: f"{to_create(STATEMENTS)} and the rights of pg_monitor",
    **{name: _ON.format(name) for name in TRACKED},
}
"""By probe, the command that would allow it."""
_RUN = "pgdyno run with the application's statements, on a copy of the server"
_SUPPLY = {
    Lack.RIGHTS: _GRANT,
    Lack.CORES: "--cores N names them",
    Lack.CLIENTS: _RUN,
    Lack.SECONDS: f"{_RUN}; on this one, its log with log_checkpoints and log_lock_waits",
}
"""Ways to supply the facts that rules lacked."""
SCRIPT = "SCRIPT.sql"
"""Stands for the statements of the application, which pgdyno does not know."""
SNAPSHOT = "SNAPSHOT"
"""Stands for a snapshot with the server's tables, for a change that needs a restart."""
STATEMENTS_MAX = 10
WAITS_MAX = 12
BUSY_SHARE = 0.001
"""Least time of a statement that is listed, in sessions."""
LETTERS_MAX = 300


class Seen(Struct, frozen=True):
    """The answers of the rules, on the window and on the looks."""

    diagnosis: Diagnosis
    judgement: Judgement

    @property
    def findings(self) -> list[Finding]:
        """All of them; where the load is light, parts of its time are no findings."""
        found = self.diagnosis.findings
        if self.diagnosis.verdict.finding == HELD:
            found = [_of_light_load(each) for each in found]
        return [*found, *self.judgement.findings]


def _of_light_load(finding: Finding) -> Finding:
    """Return a finding that only says what little time goes into as one that was cleared."""
    if finding.status != "found" or finding.rank is not None or not finding.share:
        return finding
    sentence = f"the load is light; {finding.sentence}"
    return finding.model_copy(update={"status": "cleared", "sentence": sentence})


def _severity(finding: Finding, *, light: bool) -> Severity | None:
    """Return the severity of a finding; a limit of a light load only costs."""
    is_limit = finding.severity == "limit" and finding.rank is not None
    return "costs" if light and is_limit else finding.severity


def findings_of(run: RunFile, load: ObservedLoad, seen: Seen) -> list[Finding]:
    """Return the findings as a check reports them: a light load has no limit, and the proposals
    come as commands."""
    info = run.run
    before = circumstances_recorded(info.spec, info.server.get("settings"))
    uri = str(info.server.get("uri") or "")
    light = load.at_work is not None and load.at_work < LIGHT_SESSIONS
    predicts = load.cores is not None
    options = recorded_options(run)

    def reported(finding: Finding) -> Finding:
        return finding.model_copy(
            update={
                "severity": _severity(finding, light=light),
                "commands": finding.commands or _indexes_of(finding, before),
                "prove": proofs_of(finding, uri, before, options, predicts=predicts),
            }
        )

    return [reported(each) if each.status == "found" else each for each in seen.findings]


def check_result(
    run: RunFile,
    load: ObservedLoad,
    seen: Seen,
    findings: Sequence[Finding],
    *,
    kept: bool,
    seconds: float,
) -> CheckResult:
    """Return the result; ``findings`` are those of :func:`findings_of`, and ``seconds`` is the time
    that the check took."""
    info = run.run
    shown = worst_first(findings)
    return CheckResult(
        schema_version=1,
        run_file=str(run.path) if kept else None,
        server=CheckedServer(
            uri=str(info.server.get("uri") or ""),
            version=str(info.server.get("version") or ""),
            database=str(info.server.get("database") or ""),
            in_recovery=bool(info.server.get("in_recovery")),
        ),
        verdict=_verdict(shown, load, seen.diagnosis),
        worst=shown[0].severity if shown else None,
        **CheckResult.of_findings(findings),
        not_checked=_not_checked(run, seen),
        load=load,
        write_probe=_write_probe(run),
        seconds=round(seconds, 1),
    )


def _write_probe(run: RunFile) -> WriteProbe | None:
    try:
        return write_probe_of(Sight(run).rows(LOOK))
    except Unseen:
        return None


def _indexes_of(finding: Finding, before: Circumstances) -> tuple[str, ...]:
    """Return the statements that create the indexes that a finding proposes."""
    proposed = [each.change for each in finding.proposals if each.change.indexes]
    return tuple(line for change in proposed for line in assess(change, before).lines_to_apply())


def _verdict(findings: Sequence[Finding], load: ObservedLoad, diagnosis: Diagnosis) -> str:
    worst = findings[0].severity if findings else "minor"
    if worst == "will fail":
        return f"about to fail: {findings[0].sentence}"
    if worst == "limit":
        return findings[0].sentence
    if load.at_work is None:
        return "no limit was found, but what sessions do is hidden from this role"
    if diagnosis.verdict.finding == UNEXPLAINED and load.at_work:
        return diagnosis.verdict.sentence
    cores = f" on {numbers.counted(load.cores, 'core', 'cores')}" if load.cores else ""
    are = numbers.counted(load.at_work, "session is", "sessions are")
    return f"no limit was found: {are} at work{cores}"


def _not_checked(run: RunFile, seen: Seen) -> tuple[NotChecked, ...]:
    """Return the subjects that rules and probes did not see or judge."""
    by_rules = [
        NotChecked(subject=each.subject, why=each.why, allow=each.allow, checks=each.rules)
        for each in seen.judgement.not_looked_at
    ]
    role = str(urlsplit(run.run.server.get("uri") or "").username or "")
    allowed = {each.allow for each in by_rules}
    by_probes = (each for each in _of_probes(run, role) if to_create(each.subject) not in allowed)
    return (*by_rules, *by_probes, *_skipped(seen.diagnosis.findings, role))


def _of_probes(run: RunFile, role: str) -> Iterator[NotChecked]:
    """Yield the subjects that probes could not read, with the command that would allow it."""
    for event in run.events("probe"):
        if ProbeState.MISSING.is_of(event):
            probe, reason = str(event.detail["probe"]), str(event.detail["reason"])
            allow = _ALLOW.get(probe, "").format(role=quoted(role))
            yield NotChecked(subject=probe, why=reason, allow=allow, checks=())


def _skipped(findings: Iterable[Finding], role: str) -> Iterator[NotChecked]:
    """Yield the rules that were skipped, together where the reason is the same."""
    by_reason: dict[tuple[str, Lack | None], list[str]] = {}
    for each in findings:
        if each.status == "skipped":
            by_reason.setdefault((each.skip, each.lack), []).append(each.id)
    for (reason, lack), ids in by_reason.items():
        allow = _SUPPLY[lack].format(role=quoted(role)) if lack else ""
        yield NotChecked(subject=", ".join(ids), why=reason, allow=allow, checks=tuple(ids))


def proofs_of(
    finding: Finding, uri: str, before: Circumstances, options: Options, *, predicts: bool
) -> tuple[ProvingCommand, ...]:
    """Return a command for each proposal about the server, those that lose nothing first; with its
    predicted gain, if the model ``predicts``: it needs the server's cores. ``options`` are the
    storage parameters of tables at present.

    Left out are those about the clients, whose number is not pgdyno's to change, and those that may
    lose everything.
    """
    proofs = [
        _proof(each, uri, before, options, predicts)
        for each in finding.proposals
        if _is_of_server(each.change) and catalogue()[each.remedy_id].durability_class != "D3"
    ]
    return tuple(sorted(proofs, key=lambda each: severity(each.durability_class)))


def _is_of_server(change: Change) -> bool:
    return not (change.clients or change.pool_max or change.rate or change.spec)


def _proof(
    proposal: Proposal, uri: str, before: Circumstances, options: Options, predicts: bool
) -> ProvingCommand:
    assessed = assess(proposal.change, before)
    guards = catalogue()[proposal.remedy_id].guards or proposal.guards
    predicts = predicts and not guards and proposal.predicted_ratio != NOT_PREDICTED
    # A server that pgdyno did not start is not restarted.
    elsewhere = bool(set(assessed.needs) - {"reload", "client", "table", "index", "rewrite"})
    server = ["--snapshot", SNAPSHOT] if elsewhere else [uri]
    words = ["pgdyno", "compare", *server, "-f", SCRIPT]
    words += compare_words(proposal.change, existing=not elsewhere, before=options)
    return ProvingCommand(
        title=title_of(proposal.change),
        command=shell_line(words),
        predicted_ratio=proposal.predicted_ratio if predicts else None,
        guards=guards,
        durability_class=assessed.durability_class,
        why=proposal.why,
    )


def observed_load(run: RunFile, slice_ids: list[int]) -> ObservedLoad:
    """Return the load of others in the slices."""
    seen = observed(run, slice_ids)
    busy = [each for each in seen.statements if _is_busy(each, seen.seconds)][:STATEMENTS_MAX]
    return ObservedLoad(
        transactions_s=None
        if seen.transactions_s is None
        else numbers.rounded(seen.transactions_s),
        sessions=seen.sessions,
        at_work=None if seen.waits is None else numbers.rounded(sum(seen.waits.values())),
        cores=seen.cores,
        samplings=run.samplings(slice_ids),
        waits=tuple(
            WaitEvent(event=event, sessions=numbers.rounded(sessions))
            for event, sessions in _largest(seen.waits or {}, WAITS_MAX)
            if sessions > 0
        ),
        statements=tuple(_statement(each, seen.seconds) for each in busy),
        costliest=costliest_of(run, slice_ids),
    )


def _largest(sessions: dict[str, float], most: int) -> list[tuple[str, float]]:
    return sorted(sessions.items(), key=lambda item: -item[1])[:most]


def _statement(each: SeenStatement, seconds: float) -> BusyStatement:
    counted = each.counted
    if counted is None or not seconds:
        rates = dict.fromkeys(("calls_s", "mean_ms", "wal_bytes_s", "blocks_read_s"))
        return BusyStatement(statement=each.text[:LETTERS_MAX], sessions=each.sessions, **rates)
    return BusyStatement(
        statement=each.text[:LETTERS_MAX],
        sessions=each.sessions,
        calls_s=numbers.rounded(counted.calls / seconds),
        mean_ms=numbers.rounded(counted.exec_ms / counted.calls),
        wal_bytes_s=numbers.rounded(counted.wal_bytes / seconds),
        blocks_read_s=numbers.rounded(counted.blocks_read / seconds),
    )


def _is_busy(each: SeenStatement, seconds: float) -> bool:
    by_count = each.counted is not None and each.counted.exec_ms >= BUSY_SHARE * 1000 * seconds
    return by_count or (each.sessions or 0.0) >= BUSY_SHARE
