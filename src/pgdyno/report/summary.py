"""Summary of a run, for the terminal and the page: verdict, trust, steps, before and after.

Everything comes from the run file. What is not recorded (a trial without pairs, the end of a run
that is still running) is None and is not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from pgdyno import numbers
from pgdyno.facts.groups import group_accounts, open_loop_sentence
from pgdyno.record import Distribution, RunFile, SliceKind, TrialDecision, TrialKind, throughput_tps
from pgdyno.record.finding import Finding
from pgdyno.record.incidents import Incident, incidents
from pgdyno.report.view import View, view_of
from pgdyno.results import load
from pgdyno.spec.change import Change
from pgdyno.spec.front import values_in_force
from pgdyno.trial.result import emulated_disks

if TYPE_CHECKING:
    from pgdyno.remedy import Assessment
    from pgdyno.report.attempts import Attempt
    from pgdyno.results import Result
    from pgdyno.results.chapter import RecordedChapter
    from pgdyno.results.common import NoiseFloor, Verdict
    from pgdyno.results.investigate import RemedyPrice
    from pgdyno.results.price import Price
    from pgdyno.results.run import RunResult
    from pgdyno.results.run_parts import ServerStatements


class TriedFinding(Struct, frozen=True):
    """A finding of one diagnosis, and the changes that were tried because of it."""

    number: int
    finding: str
    sentence: str
    attempts: list[Attempt]


class MeasuredState(Struct, frozen=True):
    """Performance of the server under one setting. ``slice_ids`` is None for the whole run."""

    slice_ids: list[int] | None
    throughput_tps: float
    latency_p99_ms: float | None
    """None if too few samples lie beyond it."""
    source: str = ""
    """The measurement that the figures are from, in a few words; '' for a single run."""


class RunSummary:
    """Summary of one run file; each part is read on first use."""

    def __init__(self, run: RunFile) -> None:
        self._run = run
        self.info = run.run
        self.findings = run.findings()

    @property
    def run(self) -> RunFile:
        """The run file."""
        return self._run

    @property
    def emulated(self) -> str | None:
        """The emulated disks of the spec or of a change, in words; None if there are none."""
        return emulated_disks(self._run)

    @cached_property
    def result(self) -> Result | None:
        """The recorded result; None if there is none or it cannot be read."""
        return load(self._run)

    def result_of(self, *commands: str) -> Any:
        """Return the recorded result if it is of one of these commands, else None. Its type follows
        from the command; importing the types of all would take long."""
        return self.result if self.info.command in commands else None

    def part(self, name: str) -> Any:
        """Return a part of the recorded result; None if there is none, or it has no such part."""
        return getattr(self.result, name, None)

    @property
    def view(self) -> View:
        """The view of the command; one without sections if it has none."""
        return view_of(self.info.command)

    @property
    def single_run(self) -> RunResult | None:
        """The recorded result if it is that of a single run."""
        found: RunResult | None = self.result_of(self.info.command) if self.view.is_run else None
        return found

    @property
    def result_unreadable(self) -> bool:
        """True if a result is recorded that does not validate."""
        return bool(self.info.result) and self.result is None

    @property
    def governor(self) -> str:
        """Sentence about the governor of a single run; empty without one."""
        result = self.single_run
        return result.governor.sentence if result and result.governor else ""

    @property
    def server_statements(self) -> ServerStatements | None:
        """The server's own counts of statements of a single run."""
        return self.single_run.server_statements if self.single_run else None

    @property
    def chapter(self) -> RecordedChapter | None:
        """The chapter of a story that the run is."""
        found: RecordedChapter | None = self.part("chapter")
        return found

    @cached_property
    def incidents(self) -> tuple[Incident, ...]:
        """Unplanned restarts, crashes and absences of the server."""
        return incidents(self._run)

    @cached_property
    def connected(self) -> dict[str, int]:
        """Number of connected clients by group, of the groups in which some were not connected."""
        kinds = (SliceKind.RUN, SliceKind.BASELINE, SliceKind.NOISE, SliceKind.TRIAL)
        ids = [each.id for kind in kinds for each in self._run.slices(kind)]
        accounts = group_accounts(self._run, ids or None)
        return {
            each.name: each.clients_connected
            for each in accounts
            if each.clients_connected < each.clients
        }

    @cached_property
    def behind(self) -> list[str]:
        """A sentence for each of several client groups whose backlog grew through a single run."""
        accounts = group_accounts(self._run, self._ids_before())
        if not self.view.is_run or len(accounts) < 2:
            return []
        return [f"{a.name}: {open_loop_sentence(a)}" for a in accounts if a.fell_behind]

    @cached_property
    def all_attempts(self) -> list[Attempt]:
        """All trials, including those of the noise floor and the rechecks."""
        trials = self._run.trials()
        if not trials:
            return []
        from pgdyno.report.attempts import attempt_of

        return [attempt_of(self._run, trial) for trial in trials]

    @property
    def attempts(self) -> list[Attempt]:
        """All remedies and comparisons, in the order in which they were tried."""
        tried = (TrialKind.REMEDY, TrialKind.COMPARE, TrialKind.LEVELLED, TrialKind.PRICE)
        return [a for a in self.all_attempts if a.trial.kind in tried]

    def price_of(self, attempt: Attempt) -> Price | RemedyPrice | None:
        """Return the row of the recorded price list for the change of ``attempt``."""
        rows: Sequence[Price | RemedyPrice] = self.part("prices") or ()
        return next((row for row in rows if row.title == attempt.title), None)

    @property
    def rechecks(self) -> list[Attempt]:
        """Kept remedies that were taken back in turn."""
        return [a for a in self.all_attempts if a.trial.kind is TrialKind.RECHECK]

    @property
    def noise(self) -> Attempt | None:
        """The trial of identical slices, if it was finished."""
        return next(
            (a for a in self.all_attempts if a.trial.kind is TrialKind.NOISE and a.throughput), None
        )

    @property
    def _noise_floor(self) -> NoiseFloor | None:
        found: NoiseFloor | None = self.part("noise_floor")
        return found

    @property
    def noise_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the ratio of identical slices."""
        if self._noise_floor is not None:
            return self._noise_floor.ci95
        if self.noise is None:
            return None
        effect = self.noise.latency_p99 if self.noise_of_p99 else self.noise.throughput
        return (effect.lo, effect.hi) if effect else None

    @property
    def six_pairs_show(self) -> float | None:
        """The smallest effect that six pairs show, as a fraction; None if it is not known."""
        return self._noise_floor.six_pairs_show if self._noise_floor else None

    @property
    def noise_of_p99(self) -> bool:
        """True if the noise floor is that of p99, false if it is that of throughput."""
        if self._noise_floor is not None:
            return self._noise_floor.of == "latency_p99"
        return bool(self.noise and self.noise.rate_held)

    @property
    def comparison(self) -> Attempt | None:
        """The trial of ``pgdyno compare``."""
        return next((a for a in self.all_attempts if a.trial.kind is TrialKind.COMPARE), None)

    @cached_property
    def steps(self) -> list[TriedFinding]:
        """Remedies grouped by the finding that suggested them."""
        return _steps(self.findings, [a for a in self.attempts if a.trial.kind is TrialKind.REMEDY])

    @property
    def limits(self) -> list[Finding]:
        """Findings of the last diagnosis, the limit first."""
        last = max((finding.step for finding in self.findings), default=0)
        found = [f for f in self.findings if f.step == last and f.rank is not None]
        return sorted(found, key=lambda finding: finding.rank or 0)

    @property
    def minor(self) -> list[Finding]:
        """Findings of the last diagnosis that are found, but no limit of this load."""
        last = max((finding.step for finding in self.findings), default=0)
        return [f for f in self.findings if f.step == last and f.rank is None and f.was_found]

    @property
    def limit(self) -> Finding | None:
        """The finding that the verdict on a single run names; None if it names none."""
        if not self.limits:
            return None
        named = self.single_run.verdict.finding if self.single_run else None
        return self.limits[0] if named in (None, self.limits[0].id) else None

    @cached_property
    def before(self) -> MeasuredState | None:
        """State at the start: the baseline, the unchanged side of a trial, the long slice of a
        search, or the whole run."""
        compared = self._paired
        if self.view.has_several_loads and self._ids_before() is None:
            return None
        if compared is not None and self.changed:
            return _paired_state(compared, "a")
        return self._state(
            self._ids_before(), self.part("baseline_tps"), self.part("baseline_latency_ms_p99")
        )

    @cached_property
    def after(self) -> MeasuredState | None:
        """State at the end, with all kept changes in force."""
        if not self.changed:
            return self.before
        if self._paired is not None:
            return _paired_state(self._paired, "b")
        tps = self.part("final_tps")
        if tps is None and hasattr(self.result, "final_tps"):  # everything kept was not measured
            return None
        return self._state(self._ids_after(), tps, self.part("final_latency_ms_p99"))

    @cached_property
    def _paired(self) -> Attempt | None:
        """The trial whose figures are those of the run: a comparison, an investigation's trial of
        everything kept, or the first trial of a price list."""
        total = self.part("total")
        for attempt in self.all_attempts:
            chosen = attempt.trial.kind in (TrialKind.COMPARE, TrialKind.PRICE)
            if total is not None:
                chosen = attempt.trial.id == total.trial
            if chosen and attempt.tps and attempt.slices["a"] and attempt.slices["b"]:
                return attempt
        return None

    @property
    def changed(self) -> bool:
        """True if the settings at the end differ from those at the start."""
        return self._ids_before() != self._ids_after()

    def budget_states(self) -> dict[str, list[int] | None]:
        """Return the slices of each state whose latency budget is shown, by its name; None stands
        for the whole run."""
        if self.before is None:
            return {}
        if not self.changed:
            name = "whole run" if self.before.slice_ids is None else "measured"
            return {name: self.before.slice_ids}
        return {"before": self.before.slice_ids, "after": self._ids_after()}

    @property
    def gain_words(self) -> str:
        """Total gain in throughput, the paired effect if there is one; '' if there is none."""
        attempt, before, after = self._total, self.before, self.after
        if attempt is not None and attempt.throughput is not None:
            held = self.comparison is not None and attempt.rate_held
            return "held by the clients" if held else str(attempt.throughput)
        absent = self.part("total_absent")
        if absent:
            return f"everything kept together was not measured: {absent}"
        if before is None or after is None or not before.throughput_tps:
            return ""
        return numbers.ratio(after.throughput_tps / before.throughput_tps)

    @property
    def p99_gain_words(self) -> str:
        """Total change of p99, the paired effect if there is one; '' if there is none."""
        attempt, before, after = self._total, self.before, self.after
        if attempt is not None and attempt.latency_p99 is not None:
            return str(attempt.latency_p99)
        if before is None or after is None:
            return ""
        if not before.latency_p99_ms or not after.latency_p99_ms:
            return ""
        return numbers.change_percent(after.latency_p99_ms / before.latency_p99_ms)

    @property
    def _total(self) -> Attempt | None:
        """The trial that shows the total gain."""
        return self.comparison or (self._paired if self.part("total") else None)

    @property
    def _kept_attempts(self) -> list[Attempt]:
        """The trials after which a change was kept, also one that was taken back later."""
        return [each for each in self.attempts if each.trial.decision is TrialDecision.KEPT]

    @property
    def verdict(self) -> str:
        """The verdict on the run in one sentence, without a period."""
        if recorded := self._recorded_verdict():
            return recorded
        if self.comparison is not None and self.verdict_is_comparison:
            return f"{self.comparison.title}: {self.comparison.trial.sentence}"
        if self.limits:
            return self.limits[0].sentence
        return _VERDICT_BY_STATUS.get(self.info.status, "no limit of this load was found")

    @property
    def verdict_is_comparison(self) -> bool:
        """True if the verdict is the sentence of the comparison."""
        said = self.comparison is not None and bool(self.comparison.trial.sentence)
        return said and not self._recorded_verdict()

    def _recorded_verdict(self) -> str:
        return (self.result is not None and self.view.verdict(self.result)) or ""

    @property
    def next_limit(self) -> tuple[str, str] | None:
        """Finding and sentence of the limit at the end."""
        limit: Verdict | None = self.part("next_limit")
        if limit is not None:
            return limit.finding or "", limit.sentence
        return (self.limits[0].id, self.limits[0].sentence) if self.limits else None

    @cached_property
    def distrust(self) -> list[str]:
        """Reasons why the figures cannot be trusted, without periods; empty if they can."""
        reasons: list[str] = []
        reasons += self.part("distrust") or ()
        if not reasons and not self._run.ledger().balanced:
            reasons.append("the ledger does not add up")
        if self.info.status == "broken":
            reasons.append(self.info.status_detail or "the run is marked broken")
        return list(dict.fromkeys(reasons))

    def _ids_before(self) -> list[int] | None:
        if self._kept() and (shown := self._paired or next(iter(self._kept_attempts), None)):
            return shown.slices["a"]
        for kind in (SliceKind.RUN, SliceKind.BASELINE, SliceKind.HOLD):
            if ids := self._run.valid_slices(kind):
                return ids
        tried = [a for a in self.attempts if a.slices["a"]]
        return tried[0].slices["a"] if tried else None

    def _ids_after(self) -> list[int] | None:
        """Return the slices of the last trial in which exactly the kept changes were in force."""
        compared = self.comparison
        if compared is not None:
            return compared.slices["b"] or self._ids_before()
        kept = self._kept()
        if not kept:
            return self._ids_before()
        if self._total is not None:
            return self._total.slices["b"]
        for attempt in reversed(self.all_attempts):
            slices = [each for pair in self._run.pairs(attempt.trial.id) for each in pair]
            if ids := [s.id for s in slices if Change.from_json(s.change) == kept]:
                return ids
        return self._ids_before()

    @property
    def kept(self) -> Assessment:
        """The catalogue's facts about all kept changes as one."""
        from pgdyno.remedy import assess
        from pgdyno.report.attempts import in_force

        return assess(self._kept(), in_force(self.info))

    @property
    def before_all(self) -> Change:
        """Settings and pools before the run, as far as known: of the user's own server, of clients,
        of the pooler and of the web front end."""
        groups, pooler = self.info.spec.get("clients") or [], self.info.spec.get("pooler") or {}
        return Change(
            settings=self._settings_to_restore(),
            pool_max={g["name"]: (g.get("pool") or {}).get("max") for g in groups},
            spec={f"pooler.{n}": v for n, v in (pooler.get("settings") or {}).items()}
            | values_in_force(self.info.spec.get("front")),
        )

    def _settings_to_restore(self) -> dict[str, str]:
        """Return the settings of the user's own server that ALTER SYSTEM had set: the others return
        with RESET. All that are known, where the role may not see which those are."""
        if (self.info.spec.get("server") or {}).get("kind") != "existing":
            return {}
        known, altered = self.info.server.get("settings") or {}, self.info.server.get("altered")
        return {n: v for n, v in known.items() if altered is None or n in altered}

    def _kept(self) -> Change:
        """Return all changes that are in force at the end, as one."""
        if (kept := self.part("kept")) is not None:
            return Change.from_json(kept)
        state = Change()
        for attempt in self.attempts:
            if attempt.trial.decision is TrialDecision.KEPT:
                state = attempt.change.over(state)
        return state

    def _state(
        self, slice_ids: list[int] | None, tps: float | None, p99_ms: float | None
    ) -> MeasuredState | None:
        if self._run.ledger(slice_ids).done == 0:
            return None
        response = Distribution.of(self._run.histogram("response", slice_ids))
        p99_ns = response.percentiles_ns[99]
        measured_p99 = None if p99_ns is None else p99_ns / 1e6
        return MeasuredState(
            slice_ids=slice_ids,
            throughput_tps=throughput_tps(self._run, slice_ids) if tps is None else tps,
            latency_p99_ms=measured_p99 if p99_ms is None else p99_ms,
            source=self.view.source,
        )


_VERDICT_BY_STATUS = {
    "running": "the run is still running",
    "interrupted": "the run was interrupted before a verdict",
    "failed": "the run failed before a verdict",
    "broken": "the run is broken: its figures do not add up",
}


def _steps(findings: Iterable[Finding], remedies: Sequence[Attempt]) -> list[TriedFinding]:
    """Return the steps in order; consecutive attempts for the same finding are one step."""
    known = list(findings)
    steps: list[TriedFinding] = []
    for attempt in remedies:
        finding = attempt.trial.finding or ""
        sentence = _sentence_before(known, finding, attempt.trial.step)
        if not steps or (steps[-1].finding, steps[-1].sentence) != (finding, sentence):
            steps.append(TriedFinding(len(steps) + 1, finding, sentence, []))
        steps[-1].attempts.append(attempt)
    return steps


def _sentence_before(findings: Sequence[Finding], finding: str, step: int) -> str:
    """Return the sentence of a finding in the last diagnosis before trial number ``step``.

    A finding's step is the number of trials before it, so it is lower than that of its trials.
    """
    earlier = [f for f in findings if f.id == finding and f.step < max(step, 1)]
    return earlier[-1].sentence if earlier else ""


def _paired_state(attempt: Attempt, side: Literal["a", "b"]) -> MeasuredState:
    """Return the figures of one side of a trial."""
    tps, p99_ms = (
        0.0 if levels is None else levels.before if side == "a" else levels.after
        for levels in (attempt.tps, attempt.p99_ms)
    )
    return MeasuredState(
        attempt.slices[side], tps, p99_ms, f"unchanged side of the trial of {attempt.title}"
    )
