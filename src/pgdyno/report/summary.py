"""Summary of a run, for the terminal and the page: verdict, trust, steps, before and after.

Everything comes from the run file. What is not recorded (a trial without pairs, the end of a run
that is still running) is None and is not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pgdyno.diagnose.groups import group_accounts, open_loop_sentence
from pgdyno.record import FindingRow, RunFile, throughput_tps
from pgdyno.record.incidents import Incident, incidents
from pgdyno.remedy import Assessment, assess
from pgdyno.report.attempts import Attempt, attempt_of, in_force
from pgdyno.results import Result, load
from pgdyno.results.chapter import RecordedChapter
from pgdyno.results.common import NoiseFloor
from pgdyno.results.compare import CompareResult
from pgdyno.results.drill import DrillResult
from pgdyno.results.investigate import InvestigateResult, RemedyPrice
from pgdyno.results.price import Price, PriceResult
from pgdyno.results.run import RunResult
from pgdyno.spec.change import Change
from pgdyno.stats.words import change_words, ratio_words
from pgdyno.trial.result import emulated_disks


@dataclass(frozen=True)
class Step:
    """A finding of one diagnosis, and the changes that were tried because of it."""

    number: int
    finding: str
    sentence: str
    attempts: list[Attempt]


@dataclass(frozen=True)
class State:
    """Performance of the server under one setting. ``slice_ids`` is None for the whole run."""

    slice_ids: list[int] | None
    throughput_tps: float
    latency_p99_ms: float
    source: str = ""
    """The measurement that the figures are from, in a few words; '' for a single run."""


class RunSummary:
    """Summary of one run file; each part is read on first use."""

    def __init__(self, run: RunFile) -> None:
        self._run = run
        self.info = run.run
        self.findings = run.findings()

    @property
    def emulated(self) -> str | None:
        """The emulated disks of the spec or of a change, in words; None if there are none."""
        return emulated_disks(self._run)

    @cached_property
    def result(self) -> Result | None:
        """The recorded result; None if there is none or it cannot be read."""
        return load(self._run)

    @property
    def result_unreadable(self) -> bool:
        """True if a result is recorded that is damaged or was written by another version."""
        return bool(self.info.result) and self.result is None

    @property
    def investigation(self) -> InvestigateResult | None:
        """The recorded result of an investigation."""
        return self.result if isinstance(self.result, InvestigateResult) else None

    @property
    def price_list(self) -> PriceResult | None:
        """The recorded price list of ``pgdyno price``."""
        return self.result if isinstance(self.result, PriceResult) else None

    @property
    def single_run(self) -> RunResult | None:
        """The recorded result of ``pgdyno run``."""
        return self.result if isinstance(self.result, RunResult) else None

    @property
    def chapter(self) -> RecordedChapter | None:
        """The chapter of a story that the run is."""
        result = self.result
        return result.chapter if isinstance(result, CompareResult | DrillResult) else None

    @cached_property
    def incidents(self) -> list[Incident]:
        """Unplanned restarts, crashes and absences of the server."""
        return incidents(self._run)

    @cached_property
    def connected(self) -> dict[str, int]:
        """Number of connected clients by group, of the groups in which some were not connected."""
        kinds = ("run", "baseline", "noise", "trial")
        ids = [each.id for kind in kinds for each in self._run.slices(kind=kind)]
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
        if self.info.command != "run" or len(accounts) < 2:
            return []
        return [f"{a.name}: {open_loop_sentence(a)}" for a in accounts if a.fell_behind]

    @cached_property
    def all_attempts(self) -> list[Attempt]:
        """All trials, including those of the noise floor and the rechecks."""
        return [attempt_of(self._run, trial) for trial in self._run.trials()]

    @property
    def attempts(self) -> list[Attempt]:
        """All remedies and comparisons, in the order in which they were tried."""
        return [a for a in self.all_attempts if a.trial.kind in ("remedy", "compare", "price")]

    def price_of(self, attempt: Attempt) -> Price | RemedyPrice | None:
        """Return the row of the recorded price list for the change of ``attempt``."""
        rows: Sequence[Price | RemedyPrice] = ()
        if self.price_list is not None:
            rows = self.price_list.prices
        elif self.investigation is not None:
            rows = self.investigation.prices or ()
        return next((row for row in rows if row.title == attempt.title), None)

    @property
    def rechecks(self) -> list[Attempt]:
        """Kept remedies that were taken back in turn."""
        return [a for a in self.all_attempts if a.trial.kind == "recheck"]

    @property
    def noise(self) -> Attempt | None:
        """The trial of identical slices, if it was finished."""
        return next(
            (a for a in self.all_attempts if a.trial.kind == "noise" and a.throughput), None
        )

    @property
    def _noise_floor(self) -> NoiseFloor | None:
        result = self.result
        if isinstance(result, CompareResult | InvestigateResult | PriceResult):
            return result.noise_floor
        return None

    @property
    def noise_half_width(self) -> float | None:
        """Difference between identical slices, as a share: the farther end of the interval,
        computed on the logarithm of the ratio, as for verdicts."""
        interval = self._noise_floor.ci95 if self._noise_floor else None
        if interval is None and self.noise:
            effect = self.noise.latency_p99 if self.noise_of_p99 else self.noise.throughput
            interval = (effect.lo, effect.hi) if effect else None
        return max(1 / interval[0], interval[1]) - 1 if interval else None

    @property
    def noise_of_p99(self) -> bool:
        """True if the noise floor is that of p99, false if it is that of throughput."""
        if self._noise_floor is not None:
            return self._noise_floor.of == "latency_p99"
        return bool(self.noise and self.noise.rate_held)

    @property
    def comparison(self) -> Attempt | None:
        """The trial of ``pgdyno compare``."""
        return next((a for a in self.all_attempts if a.trial.kind == "compare"), None)

    @cached_property
    def steps(self) -> list[Step]:
        """Remedies grouped by the finding that suggested them."""
        return _steps(self.findings, [a for a in self.attempts if a.trial.kind == "remedy"])

    @property
    def limits(self) -> list[FindingRow]:
        """Findings of the last diagnosis, the limit first."""
        last = max((finding.step for finding in self.findings), default=0)
        found = [f for f in self.findings if f.step == last and f.rank is not None]
        return sorted(found, key=lambda finding: finding.rank or 0)

    @cached_property
    def before(self) -> State | None:
        """State at the start: the baseline, the unchanged side of a trial, or the whole run."""
        compared, result = self._paired, self.investigation
        if compared is not None:
            return _paired_state(compared, "a")
        return self._state(
            self._ids_before(),
            result.baseline_tps if result else None,
            result.baseline_latency_ms_p99 if result else None,
        )

    @cached_property
    def after(self) -> State | None:
        """State at the end, with all kept changes in force."""
        compared, result = self._paired, self.investigation
        if not self.changed:
            return self.before
        if compared is not None:
            return _paired_state(compared, "b")
        return self._state(
            self._ids_after(),
            result.final_tps if result else None,
            result.final_latency_ms_p99 if result else None,
        )

    @property
    def _paired(self) -> Attempt | None:
        """The trial whose figures are those of the run: a comparison, or the first trial of a price
        list."""
        for attempt in self.all_attempts:
            measured = attempt.trial.kind in ("compare", "price") and attempt.tps
            if measured and attempt.slices["a"] and attempt.slices["b"]:
                return attempt
        return None

    @property
    def changed(self) -> bool:
        """True if the settings at the end differ from those at the start."""
        return self._ids_before() != self._ids_after()

    def budget_states(self) -> dict[str, list[int] | None]:
        """Return the slices of each state whose latency budget is shown, by its name; None stands
        for the whole run."""
        if self.before is None or self.after is None:
            return {}
        if not self.changed:
            name = "whole run" if self.before.slice_ids is None else "measured"
            return {name: self.before.slice_ids}
        return {"before": self.before.slice_ids, "after": self.after.slice_ids}

    @property
    def gain_words(self) -> str:
        """Total gain in throughput, the paired effect if there is one trial; '' if there is
        none."""
        attempt, before, after = self._only_change, self.before, self.after
        if attempt is not None and attempt.throughput is not None:
            held = self.comparison is not None and attempt.rate_held
            return "held by the clients" if held else str(attempt.throughput)
        if before is None or after is None or not before.throughput_tps:
            return ""
        return f"{ratio_words(after.throughput_tps / before.throughput_tps)}{self._steps_words}"

    @property
    def p99_gain_words(self) -> str:
        """Total change of p99, the paired effect if there is one trial; '' if there is none."""
        attempt, before, after = self._only_change, self.before, self.after
        if attempt is not None and attempt.latency_p99 is not None:
            return str(attempt.latency_p99)
        if before is None or after is None or not before.latency_p99_ms:
            return ""
        return f"{change_words(after.latency_p99_ms / before.latency_p99_ms)}{self._steps_words}"

    @property
    def _only_change(self) -> Attempt | None:
        """The trial of the comparison, or of the only change that an investigation kept."""
        if self.comparison is not None:
            return self.comparison
        return self._kept_attempts[0] if self._is_one_trial else None

    @property
    def _is_one_trial(self) -> bool:
        """True if figures before and after are those of the only kept change in its trial. Results
        of older versions have figures of other slices."""
        kept, result = self._kept_attempts, self.investigation
        taken_back = any(each.outcome == "taken back" for each in self.rechecks)
        if len(kept) != 1 or taken_back or result is None:
            return False
        levels = kept[0].tps
        return levels is not None and round(levels.before, 2) == result.baseline_tps

    @property
    def _kept_attempts(self) -> list[Attempt]:
        """The trials after which a change was kept, also one that was taken back later."""
        return [each for each in self.attempts if each.trial.decision == "kept"]

    @property
    def _steps_words(self) -> str:
        """The number of trials that the total gain is the product of, in words."""
        kept = len(self._kept_attempts)
        return f", product of {kept} trials" if kept > 1 else ""

    @property
    def verdict(self) -> str:
        """The verdict on the run in one sentence, without a period."""
        if recorded := self._recorded_verdict():
            return recorded
        if self.comparison is not None and self.comparison.trial.sentence:
            return f"{self.comparison.title}: {self.comparison.trial.sentence}"
        if self.limits:
            return self.limits[0].sentence
        return _VERDICT_BY_STATUS.get(self.info.status, "no limit of this load was found")

    def _recorded_verdict(self) -> str:
        result = self.result
        if isinstance(result, RunResult | InvestigateResult):
            return result.verdict.sentence
        return result.verdict if isinstance(result, PriceResult) else ""

    @property
    def next_limit(self) -> tuple[str, str] | None:
        """Finding and sentence of the limit at the end."""
        if self.investigation is not None:
            limit = self.investigation.next_limit
            return limit.finding or "", limit.sentence
        return (self.limits[0].finding, self.limits[0].sentence) if self.limits else None

    @cached_property
    def distrust(self) -> list[str]:
        """Reasons why the figures cannot be trusted, without periods; empty if they can."""
        reasons: list[str] = []
        if self.result is not None and not isinstance(self.result, DrillResult):
            reasons += self.result.distrust
        if not reasons and not self._run.ledger().balanced:
            reasons.append("the ledger does not add up")
        if self.info.status == "broken":
            reasons.append(self.info.status_detail or "the run is marked broken")
        return list(dict.fromkeys(reasons))

    def _ids_before(self) -> list[int] | None:
        if self._kept_attempts and self._kept():
            return self._kept_attempts[0].slices["a"]
        for kind in ("run", "baseline"):
            if ids := [s.id for s in self._run.slices(kind=kind)]:
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
        for attempt in reversed(self.all_attempts):
            slices = [each for pair in self._run.pairs(attempt.trial.id) for each in pair]
            if ids := [s.id for s in slices if Change.from_json(s.change) == kept]:
                return ids
        return self._ids_before()

    @property
    def kept(self) -> Assessment:
        """The catalogue's facts about all kept changes as one."""
        return assess(self._kept(), in_force(self.info))

    @property
    def before_all(self) -> Change:
        """The known settings and pools of the user's own server and clients before the run."""
        groups = self.info.spec.get("clients") or []
        theirs = (self.info.spec.get("server") or {}).get("kind") == "existing"
        return Change(
            settings=dict(self.info.server.get("settings") or {}) if theirs else {},
            pool_max={g["name"]: (g.get("pool") or {}).get("max") for g in groups},
        )

    def _kept(self) -> Change:
        """Return all changes that are in force at the end, as one."""
        if self.investigation is not None:
            return Change.from_json(self.investigation.kept)
        state = Change()
        for attempt in self.attempts:
            if attempt.trial.decision == "kept":
                state = attempt.change.over(state)
        return state

    def _state(
        self, slice_ids: list[int] | None, tps: float | None, p99_ms: float | None
    ) -> State | None:
        if self._run.ledger(slice_ids).done == 0:
            return None
        measured_p99 = self._run.histogram("response", slice_ids).percentile(99) / 1e6
        return State(
            slice_ids=slice_ids,
            throughput_tps=throughput_tps(self._run, slice_ids) if tps is None else tps,
            latency_p99_ms=measured_p99 if p99_ms is None else p99_ms,
            source="in the slice before the trials" if self.investigation else "",
        )


_VERDICT_BY_STATUS = {
    "running": "the run is still running",
    "interrupted": "the run was interrupted before a verdict",
    "failed": "the run failed before a verdict",
    "broken": "the run is broken: its figures do not add up",
}


def _steps(findings: Iterable[FindingRow], remedies: Sequence[Attempt]) -> list[Step]:
    """Return the steps in order; consecutive attempts for the same finding are one step."""
    known = list(findings)
    steps: list[Step] = []
    for attempt in remedies:
        finding = attempt.trial.finding or ""
        sentence = _sentence_before(known, finding, attempt.trial.step)
        if not steps or (steps[-1].finding, steps[-1].sentence) != (finding, sentence):
            steps.append(Step(len(steps) + 1, finding, sentence, []))
        steps[-1].attempts.append(attempt)
    return steps


def _sentence_before(findings: Sequence[FindingRow], finding: str, step: int) -> str:
    """Return the sentence of a finding in the last diagnosis before trial number ``step``.

    A finding's step is the number of trials before it, so it is lower than that of its trials.
    """
    earlier = [f for f in findings if f.finding == finding and f.step < max(step, 1)]
    return earlier[-1].sentence if earlier else ""


def _paired_state(attempt: Attempt, side: Literal["a", "b"]) -> State:
    """Return the figures of one side of a trial."""
    tps, p99_ms = (
        0.0 if levels is None else levels.before if side == "a" else levels.after
        for levels in (attempt.tps, attempt.p99_ms)
    )
    return State(
        attempt.slices[side], tps, p99_ms, f"unchanged side of the trial of {attempt.title}"
    )
